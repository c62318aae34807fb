#include "measure/doctor.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/chrono.h>
#include <spdlog/spdlog.h>

#include "measure/probe.h"
#include "net/tcp/route.h"

namespace rookery::measure {
namespace {

using net::Failure;
using net::LinkError;

constexpr std::chrono::seconds kClockTolerance(30);
constexpr std::uint64_t kNoExpiry = 0;

// The steps of an examination, in order. Each adds findings; those that need what an earlier one could not get are not
// taken.
class Doctor {
 public:
  Doctor(Clock& clock, net::Transport& transport, wire::Ticket ticket, DoctorOptions options,
         std::function<void(const Finding&)> tell)
      : clock_(clock),
        transport_(transport),
        ticket_(std::move(ticket)),
        options_(std::move(options)),
        tell_(std::move(tell)) {}

  Task<Examination> examine() {
    look_at_ticket();
    for (const std::string& address : ticket_.addresses) {
      auto looking = look_at_way(address);
      co_await std::move(looking);
    }
    if (!answering_.empty()) {
      auto looking = look_at_link();
      co_await std::move(looking);
    }
    co_return std::move(result_);
  }

 private:
  void add(std::string topic, Verdict verdict, std::string text, std::string advice = {}) {
    result_.findings.push_back({std::move(topic), verdict, std::move(text), std::move(advice)});
    tell_(result_.findings.back());
  }

  void look_at_ticket() {
    if (ticket_.expires == kNoExpiry) return add("ticket", Verdict::kGood, "does not expire");
    const auto now = static_cast<std::uint64_t>(clock_.date().time_since_epoch().count());
    const std::string when = format_date(ticket_.expires);
    if (now < ticket_.expires) return add("ticket", Verdict::kGood, "valid until " + when);
    add("ticket", Verdict::kBad, "expired " + when, "ask for a new one; if it is new, set this computer's clock");
  }

  static std::string format_date(std::uint64_t seconds) {
    const auto time = static_cast<std::time_t>(std::min<std::uint64_t>(seconds, 32503680000));  // the year 3000
    return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time));
  }

  // Name, interface and port of one address.
  Task<> look_at_way(std::string address) {
    net::HostPort parts;
    try {
      parts = net::parse_host_port(address);
    } catch (const InputError& error) {
      add("name", Verdict::kBad, error.what(), "ask for a new ticket");
      co_return;
    }
    std::vector<std::string> numeric;
    try {
      auto resolving = net::resolve(clock_, parts, clock_.now() + options_.patience);
      numeric = co_await std::move(resolving);
    } catch (const LinkError& error) {
      add("name", Verdict::kBad, fmt::format("{} stands for no address: {}", parts.host, error.text()),
          "check its spelling and this computer's DNS, or ask for a ticket with a numeric address");
      co_return;
    }
    if (numeric.front() != parts.host) {
      add("name", Verdict::kGood, fmt::format("{} is {}", parts.host, fmt::join(numeric, ", ")));
    }
    const std::string own = look_at_interface(numeric.front());
    const Time start = clock_.now();
    try {
      auto dialling = transport_.dial(address, start + options_.patience);
      const auto pipe = co_await std::move(dialling);
      add("port", Verdict::kGood, fmt::format("{} answers in {}", address, format_duration(clock_.now() - start)));
      answering_.push_back({.address = address, .own = own});
    } catch (const LinkError& error) {
      const bool refused = error.text().find("refused") != std::string_view::npos;
      add("port", Verdict::kBad, fmt::format("{}: {}", address, error.text()),
          refused ? "nothing listens there: is it still running, and is the port right?"
                  : fmt::format("allow TCP port {} in the firewall of that computer and of its network, and check that "
                                "it is on",
                                parts.port));
    }
  }

  // Returns this computer's own address on that way, if there is one.
  std::string look_at_interface(const std::string& there) {
    try {
      const net::Route route = net::route_to(there);
      const std::string interface = route.interface.empty() ? "an unknown interface" : route.interface;
      const std::string text = fmt::format("{} is reached over {}, from {}", there, interface, route.address);
      if (net::is_loopback(there)) {
        add("interface", Verdict::kDoubtful, text,
            "this is the same computer; other computers cannot use this address");
      } else {
        add("interface", Verdict::kGood, text);
      }
      return route.address;
    } catch (const LinkError& error) {
      add("interface", Verdict::kBad, fmt::format("there is no way to {}: {}", there, error.text()),
          "connect this computer to a network");
      return "";
    }
  }

  net::HostOptions host_options(const std::string& name) const {
    return {.name = name,
            .share_memory = false,  // it is the network that is looked at
            .heartbeat = options_.patience / 5,
            .silence = options_.patience,
            .handshake = options_.patience};
  }

  Task<> look_at_link() {
    net::Host host(clock_, transport_, net::Identity::generate(), host_options(options_.name));
    net::Meeting meeting;
    for (const Answering& answering : answering_) {
      try {
        auto dialling = host.dial(answering.address, net::Fingerprint(ticket_.fingerprint), ticket_.secret);
        meeting = co_await std::move(dialling);
        add("trust", Verdict::kGood,
            fmt::format("{} has the key of the ticket ({}…), and lets this computer in", meeting.other.name,
                        meeting.other.key.shortened()));
        own_address_ = answering.own;
        ticket_.addresses = {answering.address};
        break;
      } catch (const LinkError& error) {
        add("trust", Verdict::kBad, error.what(),
            error.failure() == Failure::kRefused ? "ask for a new ticket"
                                                 : "check that it is Rookery that answers there");
      }
    }
    if (!meeting.link) co_return;
    try {
      Prober prober(clock_, *meeting.link, 4 * options_.patience);
      auto asking = ask(prober, meeting.other.name);
      co_await std::move(asking);
      auto looking = look_at_reachability(prober, host);
      co_await std::move(looking);
    } catch (const LinkError& error) {
      add("link", Verdict::kBad, error.what(), "the link broke; try again, and closer to the router if it is wireless");
      co_return;
    }
    auto relaying = look_at_relay(std::move(meeting), host);
    co_await std::move(relaying);
  }

  Task<> ask(Prober& prober, std::string name) {
    auto dating = prober.date_difference();
    const std::chrono::seconds difference = co_await std::move(dating);
    result_.clock_difference = difference;
    const auto apart = std::chrono::abs(difference);
    const std::string text = fmt::format("{} s apart from {}'s", apart.count(), name);
    if (apart <= kClockTolerance) {
      add("clock", Verdict::kGood, text);
    } else {
      add("clock", Verdict::kDoubtful, text, "set the clocks of both computers; tickets and logs depend on them");
    }
    auto echoing = prober.round_trip();
    const Prober::RoundTrip round_trip = co_await std::move(echoing);
    result_.round_trip = round_trip.median;
    add("latency", Verdict::kGood,
        fmt::format("{} there and back, {} at worst", format_duration(round_trip.median),
                    format_duration(round_trip.worst)));
    auto up = prober.upload(round_trip.median);
    result_.upload = co_await std::move(up);
    auto down = prober.download(round_trip.median);
    result_.download = co_await std::move(down);
    add("bandwidth", Verdict::kGood,
        fmt::format("{} up, {} down", format_bandwidth(*result_.upload), format_bandwidth(*result_.download)));
  }

  Task<> look_at_reachability(Prober& prober, net::Host& host) {
    const std::string any = own_address_.find(':') == std::string::npos ? "0.0.0.0" : "::";
    try {
      host.listen(options_.listen.empty() ? net::join_host_port(any, options_.port) : options_.listen,
                  [](const net::Guest&) {});
    } catch (const InputError& error) {
      result_.way = net::Way::kReverse;
      add("reachable", Verdict::kDoubtful, fmt::format("{}: this computer dials others instead", error.what()),
          "choose another --port to be dialled at");
      co_return;
    }
    const auto port = static_cast<unsigned>(std::stoul(net::parse_host_port(host.address()).port));
    auto asking = prober.dial_back(port);
    const std::optional<std::string> failure = co_await std::move(asking);
    if (!failure) {
      result_.way = net::Way::kDirect;
      add("reachable", Verdict::kGood, "others can dial this computer: links to it are direct");
      co_return;
    }
    result_.way = net::Way::kReverse;
    add("reachable", Verdict::kDoubtful,
        fmt::format("others cannot dial this computer at port {} ({}): it dials them instead", port, *failure),
        fmt::format(
            "fine as it is; faster with many such peers if TCP port {} is allowed in this computer's firewall{}", port,
            net::is_private(own_address_) ? " and forwarded by its router to " + own_address_ : ""));
  }

  // Two guests of the relay that call each other: what peers do that both cannot be dialled.
  Task<> look_at_relay(net::Meeting meeting, net::Host& host) {
    const std::string relay_name = meeting.other.name;
    try {
      net::Host second(clock_, transport_, net::Identity::generate(), host_options(options_.name + "-2"));
      auto dialling = second.dial(ticket_);
      net::Meeting other = co_await std::move(dialling);
      net::Connector here(clock_, host, {}, {}), there(clock_, second, {}, {});
      here.use_relay(std::move(meeting.link));
      there.use_relay(std::move(other.link));
      auto connecting = there.connect({.name = options_.name, .fingerprint = host.identity().fingerprint().bytes()});
      const net::Connection connection = co_await std::move(connecting);
      add("relay", Verdict::kGood,
          relay_name + " relays what two peers say that both cannot be dialled; it cannot read it");
    } catch (const LinkError& error) {
      add("relay", Verdict::kDoubtful, fmt::format("{} does not relay: {}", relay_name, error.text()),
          "of any two peers, one must be reachable");
    }
  }

  Clock& clock_;
  net::Transport& transport_;
  wire::Ticket ticket_;
  DoctorOptions options_;
  std::function<void(const Finding&)> tell_;
  Examination result_;
  struct Answering {
    std::string address;
    std::string own;  // this computer's, on the way there
  };
  std::vector<Answering> answering_;  // addresses whose port is open
  std::string own_address_;           // on the way that is used
};

// Without the key, and perhaps without addresses, which are known once somebody listens.
wire::Ticket new_ticket(const Clock& clock, const PracticeOptions& options) {
  for (const std::string& address : options.advertise) net::parse_host_port(address);
  if (options.advertise.size() > wire::kMaxAddresses) {
    throw InputError("a ticket has room for {} addresses, not for {}", wire::kMaxAddresses, options.advertise.size());
  }
  wire::Ticket ticket{.addresses = options.advertise};
  net::fill_with_secret(ticket.secret);
  const auto expires = clock.date() + std::chrono::ceil<std::chrono::seconds>(options.open);
  ticket.expires = static_cast<std::uint64_t>(expires.time_since_epoch().count());
  return ticket;
}

net::HostOptions practice_options(const wire::Ticket& ticket) {
  net::HostOptions options{.name = "practice"};
  options.admission = {.secret = ticket.secret,
                       .expires = std::chrono::sys_seconds(std::chrono::seconds(ticket.expires))};
  return options;
}

}  // namespace

Verdict Examination::verdict() const {
  Verdict worst = Verdict::kGood;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  return worst;
}

Task<Examination> examine(Clock& clock, net::Transport& transport, wire::Ticket ticket, DoctorOptions options,
                          std::function<void(const Finding&)> tell) {
  Doctor doctor(clock, transport, std::move(ticket), std::move(options), std::move(tell));
  auto examining = doctor.examine();
  co_return co_await std::move(examining);
}

Practice::Practice(Clock& clock, net::Transport& transport, const PracticeOptions& options)
    : clock_(clock),
      closes_(clock.now() + options.open),
      ticket_(new_ticket(clock, options)),
      host_(clock, transport, net::Identity::generate(), practice_options(ticket_)),
      relay_(clock, {}) {
  host_.listen(options.listen, [](const net::Guest& guest) {
    if (!guest.ticket) throw LinkError(Failure::kRefused, guest.name, "come with the ticket");
  });
  ticket_.fingerprint = host_.identity().fingerprint().bytes();
  if (ticket_.addresses.empty()) ticket_.addresses = net::dialable_addresses(host_.address(), wire::kMaxAddresses);
}

Task<> Practice::serve() {
  Alarm closing(clock_);
  closing.set(closes_, [this] { close(); });
  TaskGroup answering(clock_.executor());
  std::vector<std::weak_ptr<net::Link>> links;
  try {
    for (;;) {
      auto accepting = host_.accept();
      net::Meeting meeting = co_await std::move(accepting);
      spdlog::info("{} at {} asks", meeting.other.name, meeting.other.address);
      const std::shared_ptr<net::Link> link = std::move(meeting.link);
      relay_.serve(link, meeting.other);
      std::erase_if(links, [](const auto& l) { return l.expired(); });
      links.push_back(link);
      answering.spawn(answer_probes(clock_, host_, link, meeting.other));
    }
  } catch (const LinkError&) {  // closed
  }
  for (const auto& weak : links) {
    if (const auto link = weak.lock()) link->close();
  }
  auto joined = answering.join();
  co_await std::move(joined);
}

}  // namespace rookery::measure

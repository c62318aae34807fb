#include "measure/doctor.h"

#include <cstdio>
#include <memory>
#include <unistd.h>

#include <fmt/color.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/real_world.h"
#include "cli/commands.h"
#include "net/tcp/tcp_transport.h"
#include "wire/ticket.h"

namespace rookery::cli {
namespace {

using measure::Examination;
using measure::Finding;
using measure::Verdict;

struct DoctorArguments {
  std::string ticket;
  unsigned port = 0;
  std::string patience = "5s";
  std::string listen;
  std::vector<std::string> advertise;
  std::string open = "1h";
  bool json = false;
};

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::kGood ? "ok" : verdict == Verdict::kDoubtful ? "note" : "BAD";
}

void print(const Finding& finding) {
  const auto color = finding.verdict == Verdict::kGood       ? fmt::terminal_color::green
                     : finding.verdict == Verdict::kDoubtful ? fmt::terminal_color::yellow
                                                             : fmt::terminal_color::red;
  const std::string verdict = fmt::format("{:<4}", name_of(finding.verdict));
  const std::string shown = ::isatty(STDOUT_FILENO) == 1 ? fmt::format(fmt::fg(color), "{}", verdict) : verdict;
  fmt::print("{}  {:<10} {}\n", shown, finding.topic, finding.text);
  if (!finding.advice.empty()) fmt::print("{:17}→ {}\n", "", finding.advice);
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Examination& found) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& f : found.findings) {
    findings.push_back({{"topic", f.topic}, {"verdict", name_of(f.verdict)}, {"text", f.text}, {"advice", f.advice}});
  }
  const auto or_null = [](const auto& value, auto convert) {
    return value ? nlohmann::ordered_json(convert(*value)) : nlohmann::ordered_json();
  };
  const auto same = [](auto value) { return value; };
  return {{"verdict", name_of(found.verdict())},
          {"way", or_null(found.way, [](net::Way way) { return net::name_of(way); })},
          {"clock_difference_seconds", or_null(found.clock_difference, [](auto d) { return d.count(); })},
          {"round_trip_seconds",
           or_null(found.round_trip, [](Duration d) { return std::chrono::duration<double>(d).count(); })},
          {"upload_bits_per_second", or_null(found.upload, same)},
          {"download_bits_per_second", or_null(found.download, same)},
          {"findings", findings}};
}

Duration parse_time(const char* option, const std::string& text) {
  try {
    const Duration duration = parse_duration(text);
    if (duration <= Duration::zero()) throw InputError("it must be more than nothing");
    return duration;
  } catch (const InputError& error) {
    throw InputError("{}: {}", option, error.what());
  }
}

int consult(const DoctorArguments& a) {
  wire::Ticket ticket;
  try {
    ticket = wire::parse_ticket(a.ticket);
  } catch (const wire::WireError& error) {
    throw InputError("{}", error.what());
  }
  const measure::DoctorOptions options{.port = a.port, .patience = parse_time("--patience", a.patience)};
  Examination found;
  RealWorld world;
  const auto transport = net::make_tcp_transport(world.clock());
  const auto visit = [&]() -> Task<> {
    auto examining = measure::examine(world.clock(), *transport, ticket, options, print);
    found = co_await std::move(examining);
  };
  world.run(visit());
  const Verdict verdict = found.verdict();
  const bool linked = found.way.has_value();
  fmt::print("\n{}\n", !linked ? "This computer cannot take part yet; the lines marked BAD say why."
                       : verdict == Verdict::kGood
                           ? "All is well: this computer can take part."
                           : "This computer can take part; the lines that are not ok say how it "
                             "could do so better.");
  if (a.json) print_json(to_json(found));
  return linked ? 0 : 1;
}

int practise(const DoctorArguments& a) {
  const measure::PracticeOptions options{
      .listen = a.listen, .advertise = a.advertise, .open = parse_time("--for", a.open)};
  RealWorld world;
  const auto transport = net::make_tcp_transport(world.clock());
  measure::Practice practice(world.clock(), *transport, options);
  const wire::Ticket& ticket = practice.ticket();
  fmt::print(stderr, "Listening at {} for {}. On the other computer:\n\n", fmt::join(ticket.addresses, ", "),
             format_duration(options.open));
  if (a.json) {
    print_json({{"ticket", wire::to_text(ticket)}, {"addresses", ticket.addresses}});
  } else {
    fmt::print("rookery doctor {}\n", wire::to_text(ticket));
  }
  std::fflush(stdout);
  world.run(practice.serve());
  return 0;
}

int doctor(const DoctorArguments& arguments) {
  if (arguments.ticket.empty() == arguments.listen.empty()) {
    throw InputError("give a ticket to look at the way to whoever made it, or --listen to make one");
  }
  return arguments.listen.empty() ? consult(arguments) : practise(arguments);
}

}  // namespace

void add_doctor(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("doctor", "look at the network between this computer and another");
  auto a = std::make_shared<DoctorArguments>();
  command->add_option("TICKET", a->ticket, "looks at the way to whoever made it, and says what to do");
  command->add_option("--port", a->port, "where others would dial this computer; any if left out")
      ->check(CLI::Range(0, 65535));
  command->add_option("--patience", a->patience, "how long to wait for each answer")->capture_default_str();
  command->add_option("--listen", a->listen, "ADDRESS:PORT: be the other end, and print a ticket for it");
  command->add_option("--advertise", a->advertise, "HOST:PORT that the ticket names, instead of this computer's own")
      ->allow_extra_args(false);
  command->add_option("--for", a->open, "how long to listen")->capture_default_str();
  command->add_flag("--json", a->json, "print the result as JSON, too");
  command->callback([a, choose] { choose([a] { return doctor(*a); }); });
}

}  // namespace rookery::cli

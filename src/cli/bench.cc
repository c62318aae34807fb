#include "measure/bench.h"

#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"

namespace rookery::cli {
namespace {

struct BenchArguments {
  std::string operation;
  std::string size = "64MiB", codec = "none", transport = "auto", bandwidth, latency = "0ms", jitter = "0ms",
              deadline = "5s";
  double loss = 0;
  measure::BenchOptions options;
  bool json = false;
};

// The text of a unit, with the option to blame if it is none.
template <typename Parser>
auto parse(const char* option, const std::string& text, Parser parser) {
  try {
    return parser(text);
  } catch (const InputError& error) {
    throw InputError("{}: {}", option, error.what());
  }
}

measure::BenchOptions options_of(const BenchArguments& a) {
  measure::BenchOptions o = a.options;
  o.operation = a.operation == "link"       ? measure::Operation::kLink
                : a.operation == "exchange" ? measure::Operation::kExchange
                                            : measure::Operation::kAllReduce;
  o.bytes = parse("--size", a.size, parse_bytes);
  o.codec = parse("--codec", a.codec, collective::parse_codec);
  o.transport = a.transport == "tcp"   ? measure::TransportChoice::kTcp
                : a.transport == "shm" ? measure::TransportChoice::kShm
                                       : measure::TransportChoice::kAuto;
  // What has to do with sockets asks for them.
  if (a.transport == "auto" && (o.tls || o.lanes > 1)) o.transport = measure::TransportChoice::kTcp;
  if (!a.bandwidth.empty()) o.line.bandwidth = parse("--bandwidth", a.bandwidth, parse_bandwidth);
  o.line.latency = parse("--latency", a.latency, parse_duration);
  o.line.jitter = parse("--jitter", a.jitter, parse_duration);
  o.line.loss = a.loss;
  o.deadline = parse("--deadline", a.deadline, parse_duration);
  return o;
}

std::string time_text(double seconds) {
  return format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

void print_human(const BenchArguments& a, const measure::BenchOptions& o, const measure::BenchResult& r) {
  const double median = measure::quantile(r.seconds, 0.5);
  std::vector<std::string> heading = {"operation", "peers", "size",      "codec",   "time",
                                      "10%",       "90%",   "bandwidth", "of limit"};
  std::vector<std::string> row = {a.operation,
                                  std::to_string(o.peers),
                                  format_bytes(o.bytes),
                                  std::string(name_of(o.codec)),
                                  time_text(median),
                                  time_text(measure::quantile(r.seconds, 0.1)),
                                  time_text(measure::quantile(r.seconds, 0.9)),
                                  fmt::format("{:.3g} GB/s", static_cast<double>(o.bytes) / median / 1e9),
                                  r.limit_seconds ? fmt::format("{:.0f}%", 100 * *r.limit_seconds / median) : "-"};
  if (r.latency_seconds) {
    heading.push_back("latency");
    row.push_back(time_text(*r.latency_seconds));
  }
  print_table({heading, row});
}

nlohmann::ordered_json to_json(const BenchArguments& a, const measure::BenchOptions& o, const measure::BenchResult& r) {
  const double median = measure::quantile(r.seconds, 0.5);
  nlohmann::ordered_json json = {
      {"operation", a.operation},
      {"peers", o.peers},
      {"bytes", o.bytes},
      {"codec", name_of(o.codec)},
      {"seconds",
       {{"median", median}, {"p10", measure::quantile(r.seconds, 0.1)}, {"p90", measure::quantile(r.seconds, 0.9)}}},
      {"algorithm_bytes_per_second", static_cast<double>(o.bytes) / median},
      {"limit_share", nullptr}};
  if (r.limit_seconds) json["limit_share"] = *r.limit_seconds / median;
  if (r.latency_seconds) json["latency_seconds"] = *r.latency_seconds;
  return json;
}

int bench(const BenchArguments& arguments) {
  const measure::BenchOptions options = options_of(arguments);
  if (::isatty(STDERR_FILENO) == 1) {
    fmt::print(stderr, "{} of {} between {} local peers, {} times\n", arguments.operation, format_bytes(options.bytes),
               options.peers, options.iterations);
  }
  const measure::BenchResult result = measure::run_bench(options);
  if (!result.failures.empty()) {
    if (arguments.json) {
      nlohmann::ordered_json failures = nlohmann::ordered_json::array();
      for (const auto& f : result.failures) failures.push_back({{"peer", f.peer}, {"why", f.why}});
      print_json({{"operation", arguments.operation}, {"failures", failures}});
    }
    for (const auto& f : result.failures) fmt::print(stderr, "{} could not go on: {}\n", f.peer, f.why);
    throw Error("{} of {} peers could not go on", result.failures.size(), options.peers);
  }
  print_human(arguments, options, result);
  if (arguments.json) print_json(to_json(arguments, options, result));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("bench", "measure links and collectives between processes of this machine");
  auto a = std::make_shared<BenchArguments>();
  command
      ->add_option("operation", a->operation,
                   "allreduce: over a ring of peers; exchange: gossip in pairs; link: one way between two")
      ->required()
      ->check(CLI::IsMember({"allreduce", "exchange", "link"}));
  command->add_option("--peers", a->options.peers, "processes")->capture_default_str();
  command->add_option("--size", a->size, "of what each peer contributes, as in 64MiB")->capture_default_str();
  command->add_option("--codec", a->codec, "how floats travel: none, bf16 or int8")->capture_default_str();
  command->add_option("--transport", a->transport, "auto: shared memory, unless an option needs sockets")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "tcp", "shm"}));
  command->add_option("--lanes", a->options.lanes, "sockets side by side in a link")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  command->add_flag("--tls", a->options.tls, "encrypt the sockets");
  command->add_option("--bandwidth", a->bandwidth, "shape links to this, as in 100mbit; unlimited if left out");
  command->add_option("--latency", a->latency, "one way, of shaped links")->capture_default_str();
  command->add_option("--jitter", a->jitter, "up to so much more latency")->capture_default_str();
  command->add_option("--loss", a->loss, "share of packets that have to be sent again")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.5));
  command->add_option("--iterations", a->options.iterations, "how often to measure")->capture_default_str();
  command->add_option("--deadline", a->deadline, "how long a peer may be silent before it counts as lost")
      ->capture_default_str();
  command->add_flag("--json", a->json, "print the result as JSON, too");
  command->callback([a, choose] { choose([a] { return bench(*a); }); });
}

}  // namespace rookery::cli

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "observe/plot.h"
#include "plan/schedule.h"
#include "plan/sweep.h"
#include "train/arrange.h"
#include "train/learner.h"
#include "train/look_on.h"
#include "train/wiring.h"
#include "wire/bytes.h"

namespace rookery::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kShownSteps = 2;
constexpr double kColumnsPerMicroBatch = 3;  // of the slowest stage

struct PlanOptions {
  SettingsOptions settings;
  std::string peers, show, plot;
  bool plain = false, json = false;
};

struct Planned {
  train::Blueprint blueprint;
  plan::Swarm swarm;
  plan::Job job;
  std::vector<plan::Option> options;  // the best first
  double seconds = 0;                 // that it took to find them

  const config::Settings& settings() const { return blueprint.settings; }
  const plan::Option& best() const { return options.front(); }
  const plan::Candidate& candidate() const { return best().candidate; }
  bool has_stages() const {
    return std::ranges::any_of(candidate().clusters, [](const auto& peers) { return peers.size() > 1; });
  }
  // Those that were thought about, then all others that these clusters could have.
  std::vector<plan::MethodOptions> methods() const {
    std::vector<plan::MethodOptions> methods;
    const auto is_known = [&](const plan::MethodOptions& method) {
      return std::ranges::count(methods, method.method, &plan::MethodOptions::method) > 0;
    };
    for (const plan::Option& option : options) {
      if (!is_known(option.candidate.method)) methods.push_back(option.candidate.method);
    }
    if (candidate().clusters.size() == 1) return methods;  // which have nobody to agree with
    for (const plan::MethodOptions& method : others()) {
      try {
        if (!is_known(method)) plan::with_method(job, swarm, candidate(), method), methods.push_back(method);
      } catch (const InputError&) {
        // Not for these clusters.
      }
    }
    return methods;
  }

  std::vector<plan::MethodOptions> others() const {
    try {
      return train::methods_to_compare(blueprint);
    } catch (const InputError&) {
      return {};
    }
  }
};

std::string text_of(double seconds) {
  return format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

config::Settings settings_for(const config::DescribedSwarm& described, const SettingsOptions& wanted) {
  const auto file = wanted.file.empty() ? std::nullopt : std::optional<std::filesystem::path>(wanted.file);
  return config::load(file, wanted.overrides, described);
}

// From a file, or from the coordinator of a swarm that trains.
config::DescribedSwarm peers_of(const PlanOptions& options) {
  if (!options.peers.starts_with("rookery-") || std::filesystem::exists(options.peers)) {
    return config::load_peers(options.peers);
  }
  try {
    train::LookOn coordinator(wire::parse_ticket(options.peers), !options.plain);
    return config::parse_peers(coordinator.measured(), "the swarm of that ticket");
  } catch (const wire::WireError& error) {
    throw InputError("{}", error.what());
  }
}

Planned make_plan(const PlanOptions& options) {
  std::optional<config::DescribedSwarm> described;
  if (!options.peers.empty()) described = peers_of(options);
  config::Settings settings = described ? settings_for(*described, options.settings) : options.settings.load();
  train::use_threads(settings.train.threads);
  train::warm_up();
  train::Blueprint blueprint = train::make_blueprint(std::move(settings));
  const train::Profile profile = train::measure_profile(blueprint);
  plan::Swarm swarm =
      described ? train::described_swarm(*described, profile) : train::described_swarm(blueprint.settings, profile);
  plan::Job job = train::job_of(blueprint, profile.layers);
  const auto start = std::chrono::steady_clock::now();
  std::vector<plan::Option> all = train::options_for(blueprint, job, swarm);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {std::move(blueprint), std::move(swarm), std::move(job), std::move(all), took.count()};
}

// How the steps of a cluster would go.
std::vector<plan::PlannedAction> timeline_of(const Planned& planned, std::size_t cluster) {
  const plan::Candidate& candidate = planned.candidate();
  const std::vector<plan::Worker> workers =
      plan::workers_of(planned.swarm, candidate.clusters[cluster], candidate.schedule.micro_batches);
  const plan::Partition& partition = candidate.partitions[cluster];
  std::vector<plan::ScheduleOptions> options(workers.size(), candidate.schedule);
  std::vector<plan::ActionTimes> times;
  for (std::size_t stage = 0; stage < workers.size(); ++stage) {
    options[stage].in_flight = partition.in_flight[stage];
    times.push_back(
        plan::action_times(planned.job.model, workers[stage], partition.cut[stage], planned.job.keeping.versions));
  }
  return plan::timeline(options, times, kShownSteps);
}

std::vector<plan::Segment> segments_of(const Planned& planned) {
  std::vector<plan::Cut> cuts;
  for (const plan::Partition& partition : planned.candidate().partitions) cuts.push_back(partition.cut);
  return plan::segments(cuts, planned.job.model.size());
}

std::vector<std::string> ring_of(const Planned& planned, const plan::Segment& segment) {
  std::vector<std::string> ring;
  for (std::size_t c = 0; c < planned.candidate().clusters.size(); ++c) {
    ring.push_back(planned.swarm.peers[planned.candidate().clusters[c][segment.stages[c]]].name);
  }
  return ring;
}

// When it pays to train together, and to talk less than all-reduce does.

// The peer that is fastest alone; nothing if none can hold the model.
std::optional<plan::Option> fastest_alone(const Planned& planned) {
  std::optional<plan::Option> fastest;
  for (const plan::Peer& peer : planned.swarm.peers) {
    plan::Swarm alone{.peers = {peer}, .cores = planned.swarm.cores};
    plan::Wishes wishes{.sizes = std::vector<std::size_t>{1}, .schedules = {planned.candidate().schedule}};
    wishes.keeping = [&](const plan::MethodOptions&, std::size_t, plan::Schedule) {
      plan::Keeping keeping = planned.job.keeping;
      keeping.method_values = 0;
      return keeping;
    };
    try {
      plan::Option own = plan::decide(planned.job, alone, wishes).front();
      if (!fastest || own.value() > fastest->value()) fastest = std::move(own);
    } catch (const InputError&) {
      // It does not fit there.
    }
  }
  return fastest;
}

struct Advice {
  std::optional<double> together;     // how many times as many samples/s as the fastest peer alone,
  std::optional<double> to_a_loss;    // and how many times as fast by what those are worth
  std::optional<double> slowest;      // bytes/s of the slowest link over which copies agree
  std::optional<double> crossover{};  // bytes/s of that link from which on all-reduce is as good as anything
};

Advice advice_for(const Planned& planned) {
  Advice advice;
  if (const auto alone = fastest_alone(planned)) {
    advice.together = planned.best().prediction.samples_per_second / alone->prediction.samples_per_second;
    if (planned.job.goal == plan::Goal::kLoss) advice.to_a_loss = planned.best().value() / alone->value();
  }
  const double slowest = plan::slowest_link(planned.job, planned.swarm, planned.candidate());
  if (!std::isfinite(slowest)) return advice;
  advice.slowest = slowest;
  std::vector<plan::MethodOptions> methods = planned.methods();
  const auto is_plain = [](const plan::MethodOptions& method) { return method.method == plan::Method::kAllReduce; };
  if (methods.size() < 2 || std::ranges::none_of(methods, is_plain)) return advice;
  advice.crossover = slowest * plan::all_reduce_from(planned.job, planned.swarm, planned.candidate(), methods);
  return advice;
}

std::string compared_with_one(const Advice& advice) {
  if (!advice.together) return "No peer could train this model alone.";
  std::string text =
      fmt::format("Together they do {:.2g} times as many samples/s as the fastest of them alone", *advice.together);
  if (advice.to_a_loss) {
    text += fmt::format("; by what those are worth, they come to a loss {:.2g} times as fast", *advice.to_a_loss);
  }
  return text + (advice.to_a_loss.value_or(*advice.together) < 1 ? ". That one would do better alone." : ".");
}

void say(const Advice& advice, const Planned& planned) {
  if (planned.swarm.peers.size() > 1) {
    fmt::print("\n{}\n", compared_with_one(advice));
  }
  if (!advice.crossover) return;
  const std::string slowest = format_bandwidth(8 * *advice.slowest);
  fmt::print("The slowest link over which copies agree has {}. ", slowest);
  if (*advice.crossover == 0) {
    fmt::print("All-reduce would do at any speed.\n");
  } else if (std::isinf(*advice.crossover)) {
    fmt::print("Talking less than all-reduce pays at any speed: latency is in its way.\n");
  } else {
    fmt::print("Talking less than all-reduce pays below {}.\n", format_bandwidth(8 * *advice.crossover));
  }
}

void say_clusters(const Planned& planned) {
  const plan::Candidate& candidate = planned.candidate();
  std::vector<std::vector<std::string>> rows = {
      {"cluster", "peer", "layers", "on their way", "memory", "MB sent a step"}};
  for (std::size_t c = 0; c < candidate.clusters.size(); ++c) {
    for (std::size_t s = 0; s < candidate.clusters[c].size(); ++s) {
      const std::size_t peer = candidate.clusters[c][s];
      const plan::Layers layers = candidate.partitions[c].cut[s];
      rows.push_back(
          {std::to_string(c), planned.swarm.peers[peer].name, fmt::format("{} to {}", layers.begin, layers.end - 1),
           std::to_string(candidate.partitions[c].in_flight[s]), format_bytes(planned.best().prediction.memory[peer]),
           fmt::format("{:.2f}", planned.best().prediction.bytes_sent[peer] / 1e6)});
    }
  }
  print_table(rows);
  if (candidate.clusters.size() == 1) return;
  fmt::print("\n");
  rows = {{"segment", "ring"}};
  for (const plan::Segment& segment : segments_of(planned)) {
    rows.push_back({fmt::format("layers {} to {}", segment.layers.begin, segment.layers.end - 1),
                    fmt::format("{}", fmt::join(ring_of(planned, segment), ", "))});
  }
  print_table(rows);
}

void say_options(const Planned& planned) {
  if (planned.options.size() < 2) return;
  fmt::print("\n");
  std::vector<std::vector<std::string>> rows = {
      {"method", "schedule", "clusters", "step", "samples/s", "MB sent", "memory", "waits", "worth", "why not"}};
  for (const plan::Option& option : planned.options) {
    const bool is_best = &option == &planned.best();
    rows.push_back({plan::described(option.candidate.method),
                    std::string(plan::name_of(option.candidate.schedule.schedule)),
                    std::to_string(option.candidate.clusters.size()), text_of(option.prediction.step_seconds),
                    fmt::format("{:.1f}", option.prediction.samples_per_second),
                    fmt::format("{:.2f}", option.prediction.all_bytes_sent() / 1e6),
                    format_bytes(std::ranges::max(option.prediction.memory)),
                    fmt::format("{:.0f}%", 100 * option.prediction.exposed_share), fmt::format("{:.2f}", option.worth),
                    is_best ? "chosen" : plan::why_not(option, planned.best())});
  }
  print_table(rows);
}

void say(const Planned& planned) {
  const model::Model& model = *planned.blueprint.model;
  const plan::Candidate& candidate = planned.candidate();
  fmt::print("{} with {} layers and {} parameters on {} peer{}\n", model.kind(), model.size(),
             format_count(static_cast<double>(model.parameter_count())), planned.swarm.peers.size(),
             planned.swarm.peers.size() > 1 ? "s" : "");
  const std::string schedule =
      planned.has_stages() ? fmt::format(", schedule {}", plan::name_of(candidate.schedule.schedule)) : "";
  const std::string method =
      candidate.clusters.size() > 1 ? fmt::format(", method {}", plan::described(candidate.method)) : "";
  fmt::print("{} cluster{}{}{}: {} a step, {:.1f} samples/s\n\n", candidate.clusters.size(),
             candidate.clusters.size() > 1 ? "s" : "", schedule, method,
             text_of(planned.best().prediction.step_seconds), planned.best().prediction.samples_per_second);
  say_clusters(planned);
  say_options(planned);
  say(advice_for(planned), planned);
}

ordered_json to_json(const plan::Option& option) {
  return {{"method", plan::name_of(option.candidate.method.method)},
          {"interval", option.candidate.method.interval},
          {"topology", option.candidate.method.topology},
          {"schedule", plan::name_of(option.candidate.schedule.schedule)},
          {"clusters", option.candidate.clusters.size()},
          {"step_seconds", option.prediction.step_seconds},
          {"compute_seconds", option.prediction.compute_seconds},
          {"round_seconds", option.prediction.round_seconds},
          {"samples_per_second", option.prediction.samples_per_second},
          {"exposed_communication_share", option.prediction.exposed_share},
          {"bytes_sent", option.prediction.all_bytes_sent()},
          {"memory_bytes", option.prediction.memory},
          {"worth", option.worth}};
}

ordered_json to_json(const Planned& planned) {
  const plan::Candidate& candidate = planned.candidate();
  ordered_json clusters = ordered_json::array(), segments = ordered_json::array(), options = ordered_json::array();
  for (std::size_t c = 0; c < candidate.clusters.size(); ++c) {
    ordered_json stages = ordered_json::array();
    for (std::size_t s = 0; s < candidate.clusters[c].size(); ++s) {
      const std::size_t peer = candidate.clusters[c][s];
      const plan::Layers layers = candidate.partitions[c].cut[s];
      stages.push_back({{"peer", planned.swarm.peers[peer].name},
                        {"layers", {layers.begin, layers.end}},
                        {"in_flight", candidate.partitions[c].in_flight[s]},
                        {"memory_bytes", planned.best().prediction.memory[peer]},
                        {"bytes_sent", planned.best().prediction.bytes_sent[peer]}});
    }
    clusters.push_back(stages);
  }
  for (const plan::Segment& segment : segments_of(planned)) {
    segments.push_back({{"layers", {segment.layers.begin, segment.layers.end}}, {"ring", ring_of(planned, segment)}});
  }
  for (const plan::Option& option : planned.options) {
    options.push_back(to_json(option));
    if (&option != &planned.best()) options.back()["why_not"] = plan::why_not(option, planned.best());
  }
  const Advice advice = advice_for(planned);
  ordered_json object = {{"model", planned.blueprint.model->kind()},
                         {"layers", planned.blueprint.model->size()},
                         {"schedule", plan::name_of(candidate.schedule.schedule)},
                         {"method", plan::name_of(candidate.method.method)},
                         {"predicted_step_seconds", planned.best().prediction.step_seconds},
                         {"planning_seconds", planned.seconds},
                         {"clusters", clusters},
                         {"segments", segments},
                         {"options", options}};
  if (advice.together) object["times_as_fast_as_alone"] = *advice.together;
  if (advice.to_a_loss) object["times_as_fast_as_alone_to_a_loss"] = *advice.to_a_loss;
  if (advice.slowest) object["slowest_link_bits_per_second"] = 8 * *advice.slowest;
  if (advice.crossover) {
    const bool is_finite = std::isfinite(*advice.crossover);
    object["allreduce_from_bits_per_second"] = is_finite ? ordered_json(8 * *advice.crossover) : ordered_json(nullptr);
  }
  return object;
}

// Step time against link speed and against the number of peers, and samples per second against that, by method.
std::string pictures(const Planned& planned) {
  const std::size_t peers = planned.swarm.peers.size(), clusters = planned.candidate().clusters.size();
  observe::Chart by_link{.title = "Step time by link speed",
                         .subtitle = fmt::format("{} peers in {} clusters", peers, clusters),
                         .x = {.label = "slowest link over which copies agree", .logarithmic = true},
                         .y = {.label = "a step takes", .logarithmic = true}};
  by_link.x.format = [](double value) { return format_bandwidth(value); };
  by_link.y.format = text_of;
  observe::Chart by_peers{.title = "Step time by number of peers",
                          .subtitle = "the same peers and links, again and again",
                          .x = {.label = "peers", .logarithmic = true},
                          .y = {.label = "a step takes", .logarithmic = true}};
  by_peers.y.format = text_of;
  observe::Chart rate_by_peers = by_peers;
  rate_by_peers.title = "Samples per second by number of peers";
  rate_by_peers.y = {.label = "samples/s", .logarithmic = true};
  const double slowest = plan::slowest_link(planned.job, planned.swarm, planned.candidate());
  const std::size_t size = std::max<std::size_t>(1, peers / clusters);  // of a cluster
  for (const plan::MethodOptions& method : planned.methods()) {
    const std::string name = plan::described(method);
    observe::Curve& steps = by_link.curves.emplace_back(observe::Curve{.name = name});
    for (int i = -20; std::isfinite(slowest) && i <= 20; ++i) {
      const double factor = std::pow(10, i / 8.0);
      const plan::Option option =
          plan::with_method(planned.job, plan::with_links(planned.swarm, factor), planned.candidate(), method);
      steps.points.emplace_back(8 * slowest * factor, option.prediction.step_seconds);
    }
    observe::Curve& times = by_peers.curves.emplace_back(observe::Curve{.name = name});
    observe::Curve& rates = rate_by_peers.curves.emplace_back(observe::Curve{.name = name});
    for (std::size_t count = 1; count <= 64; count += std::max<std::size_t>(1, count / 2)) {
      plan::Wishes wishes{.sizes = std::vector<std::size_t>(count, size),
                          .schedules = {planned.candidate().schedule},
                          .methods = {method}};
      try {
        const plan::Swarm swarm = plan::with_peers(planned.swarm, count * size);
        const plan::Option option = plan::decide(planned.job, swarm, wishes).front();
        times.points.emplace_back(static_cast<double>(count * size), option.prediction.step_seconds);
        rates.points.emplace_back(static_cast<double>(count * size), option.prediction.samples_per_second);
      } catch (const InputError&) {
        // So many cannot make clusters of this size.
      }
    }
  }
  if (std::isfinite(slowest)) by_link.marks.push_back({.x = 8 * slowest, .label = "this swarm"});
  for (observe::Chart* chart : {&by_peers, &rate_by_peers}) {
    chart->marks.push_back({.x = static_cast<double>(peers), .label = "this swarm"});
  }
  return observe::to_svg({by_link, by_peers, rate_by_peers});
}

void show_schedule(const Planned& planned) {
  for (std::size_t c = 0; c < planned.candidate().clusters.size(); ++c) {
    const std::size_t stages = planned.candidate().clusters[c].size();
    const std::vector<plan::PlannedAction> actions = timeline_of(planned, c);
    std::vector<double> computing(stages);
    for (const plan::PlannedAction& action : actions) computing[action.stage] += action.end - action.begin;
    const auto micro_batches = static_cast<double>(kShownSteps * planned.candidate().schedule.micro_batches);
    const double column = std::ranges::max(computing) / micro_batches / kColumnsPerMicroBatch;
    fmt::print("\ncluster {}, {} steps, {} a column: n forward, (n) backward, | update\n{}", c, kShownSteps,
               text_of(column), plan::draw(actions, stages, column));
  }
}

ordered_json schedule_json(const Planned& planned) {
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  ordered_json schedule = ordered_json::array();
  for (std::size_t c = 0; c < planned.candidate().clusters.size(); ++c) {
    for (const plan::PlannedAction& action : timeline_of(planned, c)) {
      schedule.push_back({{"cluster", c},
                          {"stage", action.stage},
                          {"action", kNames[static_cast<std::size_t>(action.action)]},
                          {"micro_batch", action.micro_batch},
                          {"begin", action.begin},
                          {"end", action.end}});
    }
  }
  return schedule;
}

int plan(const PlanOptions& options) {
  if (!options.show.empty() && options.show != "schedule") {
    throw InputError("--show: there is no '{}'; it can be schedule", options.show);
  }
  const Planned planned = make_plan(options);
  if (!options.plot.empty()) replace_file(options.plot, pictures(planned));
  if (options.json) {
    ordered_json object = to_json(planned);
    if (!options.show.empty()) object["schedule_actions"] = schedule_json(planned);
    print_json(object);
    return 0;
  }
  say(planned);
  if (!options.show.empty()) show_schedule(planned);
  if (!options.plot.empty()) fmt::print("\npictures in {}\n", options.plot);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("plan", "say how a run would be done, how long a step would take, and why");
  auto options = std::make_shared<PlanOptions>();
  options->settings.add_to(*command);
  command
      ->add_option(
          "--peers", options->peers,
          "instead of local peers: computers that are described in this file, or those of a swarm that trains, "
          "by its ticket")
      ->type_name("PEERS.TOML|TICKET");
  command->add_flag("--plain", options->plain, "talk to that swarm without encryption, as its coordinator does");
  command->add_option("--show", options->show, "schedule: draw what each stage does in the first steps")
      ->type_name("WHAT");
  command->add_option("--plot", options->plot, "draw step time by link speed and by number of peers")
      ->type_name("FILE.SVG");
  command->add_flag("--json", options->json, "print the plan as JSON");
  command->callback([options, choose] { choose([options] { return plan(*options); }); });
}

}  // namespace rookery::cli

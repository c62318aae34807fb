#include "train/member.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "sync/segmented.h"
#include "tensor/kernels/update.h"
#include "tensor/schedule.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

using pipeline::Admission;
using pipeline::Border;

// Slots of exact rounds, of each occasion where peers come and go; and one for loss terms, besides those of occasions.
constexpr std::size_t kValuesSlot = 0, kOtherSlot = 1, kSumsSlot = 2, kSlots = 3, kOccasions = 5;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Connections checked(const config::Settings& settings, std::size_t layers, Connections connections) {
  check_device(settings.train);
  ROOKERY_CHECK(!connections.rings.empty());
  check_sync(settings, layers);
  for (const Ring& ring : connections.rings) check_method(settings, ring.place);
  return connections;
}

// One method, or one for each segment. What is set in steps is counted in turns, of which each step has so many.
std::unique_ptr<sync::Method> method_of(Executor executor, const Compute& compute, const std::vector<Ring>& rings,
                                        const plan::ScheduleOptions& schedule) {
  config::Settings settings = compute.settings();
  std::int64_t& interval = settings.sync.interval.emplace(interval_of(settings.sync));
  for (std::int64_t* steps : {&interval, &settings.sync.delay, &settings.sync.warmup_steps}) {
    *steps *= static_cast<std::int64_t>(schedule.updates());
  }
  const bool holds_up = is_synchronous(schedule.schedule);
  if (rings.size() == 1) return make_method(settings, rings[0].place, *rings[0].rounds, holds_up);
  std::vector<sync::Segmented::Part> parts;
  for (const Ring& ring : rings) {
    parts.push_back({.begin = compute.begin_of(ring.layers.begin),
                     .end = compute.begin_of(ring.layers.end),
                     .method = make_method(settings, ring.place, *ring.rounds, holds_up)});
  }
  return std::make_unique<sync::Segmented>(std::move(executor), std::move(parts));
}

template <typename Number>
double sum_of(const std::vector<Number>& values) {
  double sum = 0;
  for (const Number value : values) sum += static_cast<double>(value);
  return sum;
}

}  // namespace

Member::Member(Clock& clock, Compute& compute, plan::StagePlace stage, plan::ScheduleOptions schedule,
               Connections connections)
    : clock_(clock),
      compute_(compute),
      stage_(stage),
      schedule_(schedule),
      connections_(checked(compute.settings(), compute.layers(), std::move(connections))),
      method_(method_of(clock.executor(), compute, connections_.rings, schedule_)),
      runner_(clock, schedule, stage, *connections_.cluster.training, *this),
      passing_(clock, compute, stage, *connections_.cluster.evaluations) {
  if (compute.settings().sync.average_moments) moments_ = compute.moments();
  std::ranges::fill(compute.gradients(), 0.0f);
  method_->start(copy());
}

sync::Copy Member::copy() {
  return {.parameters = compute_.parameters(), .gradients = compute_.gradients(), .moments = moments_};
}

void Member::resume(std::int64_t steps_done, std::int64_t samples_done) {
  ROOKERY_CHECK(turn_ == 0, "turn_ = {}", turn_);
  go_on_after(steps_done, samples_done);
}

void Member::go_on_after(std::int64_t steps_done, std::int64_t samples_done) {
  turn_ = static_cast<std::uint64_t>(steps_done) * turns_per_step();
  if (!method_->pulls()) {
    first_sample_ = samples_done;
    return;
  }
  // Each cluster has used as many blocks as it has not pulled.
  std::uint64_t updates = 0;
  for (std::uint64_t turn = 0; turn < turn_; ++turn) updates += method_->move(turn) == sync::Move::kGradient ? 1 : 0;
  first_micro_batch_ = updates * schedule_.group();
}

std::vector<std::span<float>> Member::handed_on(std::size_t ring, bool equal) {
  const std::vector<std::span<float>> all = method_->handed_on(copy(), equal);
  const auto each = static_cast<std::ptrdiff_t>(all.size() / connections_.rings.size());
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(ring) * each;
  std::vector<std::span<float>> own(first, first + each);
  if (!equal) return own;
  const plan::Layers layers = connections_.rings[ring].layers;
  const auto part = [](std::span<float> values, std::size_t begin, std::size_t end) {
    return values.subspan(begin, end - begin);
  };
  for (const std::span<float> moment : compute_.moments()) {
    own.push_back(part(moment, compute_.begin_of(layers.begin), compute_.begin_of(layers.end)));
  }
  own.push_back(
      part(compute_.buffers(), compute_.buffers_begin_of(layers.begin), compute_.buffers_begin_of(layers.end)));
  return own;
}

Task<> Member::begin_again(Start start, ClusterConnections cluster) {
  connections_.cluster = std::move(cluster);
  compute_.forget();
  method_->begin_again(static_cast<std::uint64_t>(start.steps) * turns_per_step(), copy(), start.equal);
  runner_.restart(*connections_.cluster.training);
  passing_.restart(*connections_.cluster.evaluations);
  turns_.clear();
  updates_ = gradient_turns_ = 0;
  sums_ = {};
  squares_before_.clear();
  squares_after_.clear();
  go_on_after(start.steps, start.samples);
  auto spreading = spread(true);
  co_await std::move(spreading);
}

// The turn of an update with gradients; they are numbered since the beginning, or the resumption.
std::uint64_t Member::turn_of(std::uint64_t update) {
  while (turns_.size() <= update - updates_) {
    std::uint64_t turn = turns_.empty() ? turn_ : turns_.back() + 1;
    while (method_->move(turn) == sync::Move::kPull) ++turn;
    turns_.push_back(turn);
  }
  return turns_[update - updates_];
}

// The k-th block is `batch` samples of every cluster; cluster i takes the i-th slice of it, micro-batch j the j-th
// slice of that.
Samples Member::samples_of(std::uint64_t micro_batch) const {
  const std::uint64_t number = first_micro_batch_ + micro_batch;
  const auto block = static_cast<std::int64_t>(number / schedule_.micro_batches);
  const auto clusters = static_cast<std::int64_t>(place().weights.size());
  const auto cluster = static_cast<std::int64_t>(place().cluster);
  return {.first = first_sample_ + (block * clusters + cluster) * compute_.settings().train.batch,
          .part = static_cast<std::int64_t>(number % schedule_.micro_batches)};
}

// Each loss term counts the same, whichever cluster has it: everybody divides by what a batch could have at most, and
// the mean is made good once it is known how many there are.
bool Member::counts_terms(std::uint64_t turn) const {
  return compute_.terms_vary() && is_synchronous(schedule_.schedule) && method_->averages_gradients(turn);
}

// What the summed loss of an update's micro-batches is divided by.
double Member::divisor(std::uint64_t update) {
  if (counts_terms(turn_of(update))) {
    return static_cast<double>(compute_.most_terms(samples_of(update * schedule_.group()).first));
  }
  std::int64_t terms = 0;
  for (std::uint64_t i = 0; i < schedule_.group(); ++i) {
    terms += compute_.terms(samples_of(update * schedule_.group() + i));
  }
  return static_cast<double>(std::max<std::int64_t>(1, terms));
}

MicroBatch Member::described(std::uint64_t number) {
  const std::uint64_t update = number / schedule_.group(), turn = turn_of(update);
  MicroBatch micro_batch{.number = number,
                         .step = step_of(turn),
                         .index = turn % turns_per_step() * schedule_.group() + number % schedule_.group(),
                         .cluster = place().cluster,
                         .samples = samples_of(number),
                         .is_last = (number + 1) % schedule_.group() == 0};
  if (stage_.is_last()) micro_batch.divisor = divisor(update);
  if (micro_batch.is_last) {
    // What other stages contribute to tied parameters comes after the backward.
    std::size_t incomplete = 0;
    for (const Tie& tie : connections_.cluster.ties) incomplete = std::max(incomplete, tie.incomplete_until());
    micro_batch.reached = [this, turn, incomplete](std::size_t layer) {
      method_->gradients_ready(turn, std::max(compute_.begin_of(layer), incomplete), copy());
    };
  }
  return micro_batch;
}

Task<> Member::wait_for(Task<> task) {
  const Time before = clock_.now();
  const Span span(watch_, "wait for others", turn_);
  co_await std::move(task);
  waited_ += clock_.now() - before;
}

Task<> Member::run(std::int64_t until, Gate gate, Report report) {
  const struct Running {
    explicit Running(bool& is) : is_running(is) { is_running = true; }
    ~Running() { is_running = false; }
    bool& is_running;
  } runs(is_running_);
  gate_ = std::move(gate);
  report_ = std::move(report);
  step_began_ = clock_.now();
  waited_ = {};
  waited_before_ = record().waited_forward + record().waited_backward;
  const std::uint64_t end = static_cast<std::uint64_t>(until) * turns_per_step();
  std::uint64_t updates = updates_;
  for (std::uint64_t turn = turn_; turn < end; ++turn) updates += method_->move(turn) == sync::Move::kGradient ? 1 : 0;
  auto running = runner_.run(updates * schedule_.group());
  co_await std::move(running);
  // What is left are pulls.
  while (turn_ < end && method_->move(turn_) == sync::Move::kPull) {
    const Admission admission = gate_(step_of(turn_) + 1);
    if (admission == Admission::kNever) break;
    if (admission == Admission::kNow) {
      auto pulling = pull_until(turn_ + 1);
      co_await std::move(pulling);
    } else {
      const Span span(watch_, "wait for others", turn_);
      auto waiting = connections_.cluster.training->changed().wait();
      co_await std::move(waiting);
    }
  }
}

Admission Member::admit(std::uint64_t micro_batch) {
  return gate_(step_of(turn_of(micro_batch / schedule_.group())) + 1);
}

Task<Border> Member::forward(Border input) {
  const std::uint64_t number = input.micro_batch, turn = turn_of(number / schedule_.group());
  if (is_synchronous(schedule_.schedule)) {  // else the weights are those of another turn anyway
    auto pulling = pull_until(turn);
    co_await std::move(pulling);
  }
  if (!input.squares.empty()) squares_before_ = input.squares;
  auto computing = compute_.forward(described(number), std::move(input), sums_);
  Border output = co_await std::move(computing);
  if (!stage_.is_last()) {
    output.squares = squares_before_;
    output.squares.push_back(squares_);
  }
  co_return output;
}

Task<Border> Member::backward(Border gradients) {
  if (!gradients.squares.empty()) squares_after_ = gradients.squares;
  const std::uint64_t number = gradients.micro_batch;
  auto computing = compute_.backward(number, std::move(gradients));
  Border back = co_await std::move(computing);
  back.squares = squares_after_;
  back.squares.push_back(squares_);
  co_return back;
}

// What the method does to the parameters on the occasion.
Around Member::around_update() {
  if (!method_->works_on_blocks()) return {};
  return {.before = [this](std::size_t begin, std::size_t end) { method_->before_block(begin, end, copy()); },
          .after = [this](std::size_t begin, std::size_t end) { method_->after_block(begin, end, copy()); }};
}

Task<> Member::update(std::uint64_t /*number*/) {
  const config::Train& t = compute_.settings().train;
  const std::uint64_t turn = turn_of(updates_), step = step_of(turn);
  auto pulling = pull_until(turn);
  co_await std::move(pulling);
  for (Tie& tie : connections_.cluster.ties) {
    auto gathering = wait_for(tie.gather_gradients());
    co_await std::move(gathering);
  }
  double scale = 1;
  // On all rings, with the same result: who is in the one is not in the other.
  std::vector<float> terms;
  std::vector<std::unique_ptr<sync::Round>> counting;
  if (counts_terms(turn)) {
    std::int64_t own = 0;
    for (std::uint64_t i = 0; i < schedule_.group(); ++i) {
      own += compute_.terms(samples_of(updates_ * schedule_.group() + i));
    }
    scale = static_cast<double>(compute_.most_terms(samples_of(updates_ * schedule_.group()).first));
    terms.assign(connections_.rings.size(), static_cast<float>(own));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Ring& ring = connections_.rings[i];
      const sync::Which which =
          ring.place.changing ? sync::Which(kOccasions * kSlots, turn, turn + 1) : sync::Which(kOtherSlot);
      counting.push_back(ring.exact->average(which, std::span(terms).subspan(i, 1), ring.place.share(), {}));
    }
  }
  auto averaging = wait_for(method_->before_update(turn, copy()));
  co_await std::move(averaging);
  for (const auto& round : counting) {
    auto counted = wait_for(round->finish());
    co_await std::move(counted);
  }
  if (!terms.empty()) {
    scale /= std::max(1e-6, static_cast<double>(terms[0]));
    even_out(terms);
  }
  auto clipping = clipped(scale);
  const double factor = co_await std::move(clipping);
  lr_ = learning_rate(schedule_options(t), static_cast<std::int64_t>(step)) * method_->lr_factor(turn);
  auto updating = compute_.update(lr_, factor, around_update());
  co_await std::move(updating);
  versions_ = std::max(versions_, compute_.versions());
  if (!std::isfinite(sums_.loss) || !std::isfinite(grad_norm_)) {
    throw Error("the loss is no longer a number at step {}; lower train.lr (now {}) or raise train.warmup", step + 1,
                t.lr);
  }
  ++gradient_turns_;
  ++updates_;
  turns_.pop_front();
  auto ending = end_turn();
  co_await std::move(ending);
}

// Where somebody was lost while terms were counted, rings may have counted others: each goes by its own.
void Member::even_out(const std::vector<float>& terms) {
  for (std::size_t i = 1; i < terms.size(); ++i) {
    if (terms[i] == terms[0]) continue;
    const Ring& ring = connections_.rings[i];
    const std::size_t begin = compute_.begin_of(ring.layers.begin), end = compute_.begin_of(ring.layers.end);
    const float factor = terms[0] / std::max(1e-6f, terms[i]);
    for (float& gradient : copy().gradients.subspan(begin, end - begin)) gradient *= factor;
  }
}

// What the gradients are to be multiplied by, so that the norm over the whole model is at most train.clip, if it is
// `scale` otherwise. In `async` nobody waits for the norms of other stages: they are those that came with the last
// micro-batches.
//
// Squares are summed segment by segment, in the same order in all clusters: where gradients are the same, so is the
// norm, to the last bit, however a cluster is cut.
Task<double> Member::clipped(double scale) {
  const std::span<const float> gradients = copy().gradients;
  std::vector<float> squares(connections_.segments);
  for (const Ring& ring : connections_.rings) {
    const std::size_t begin = compute_.begin_of(ring.layers.begin);
    const std::size_t size = compute_.begin_of(ring.layers.end) - begin;
    squares[ring.segment] = static_cast<float>(kernels::sum_of_squares(gradients.subspan(begin, size)) * scale * scale);
  }
  squares_ = sum_of(squares);
  grad_norm_ = std::sqrt(squares_);
  const double clip = compute_.settings().train.clip;
  if (clip <= 0) co_return scale;
  double all = squares_ + sum_of(squares_before_) + sum_of(squares_after_);
  if (is_synchronous(schedule_.schedule)) {
    if (stage_.stages > 1) {
      const auto summing = connections_.cluster.rounds->average(0, squares, 1.0f, {});
      auto summed = wait_for(summing->finish());
      co_await std::move(summed);
    }
    all = sum_of(squares);
  }
  co_return clip_scale(std::sqrt(all), clip) * scale;
}

// Turns without gradients that come before this one.
Task<> Member::pull_until(std::uint64_t turn) {
  const config::Train& t = compute_.settings().train;
  while (turn_ < turn && method_->move(turn_) == sync::Move::kPull) {
    const double lr = learning_rate(schedule_options(t), static_cast<std::int64_t>(step_of(turn_)));
    lr_ = lr * method_->lr_factor(turn_);
    auto pulling = compute_.change(step_of(turn_), [this, lr, &t] { method_->pull(turn_, lr / t.lr, copy()); });
    co_await std::move(pulling);
    auto ending = end_turn();
    co_await std::move(ending);
  }
}

// The method's part after an update or a pull, and what follows from it. In `async` what a pull does to tied parameters
// is told with the next update: there is no bound on how many pulls come in a row.
Task<> Member::end_turn() {
  const std::uint64_t turn = turn_++;  // whatever happens now, the update is made
  auto done = wait_for(method_->after_step(turn, copy()));
  co_await std::move(done);
  const bool waits = is_synchronous(schedule_.schedule);
  if (waits || method_->move(turn) == sync::Move::kGradient) {
    auto spreading = wait_for(spread(waits));
    co_await std::move(spreading);
  }
  if (turn_ % turns_per_step() == 0) report_step(turn);
}

Task<> Member::spread(bool waits) {
  for (Tie& tie : connections_.cluster.ties) {
    auto spreading = tie.spread_values(waits);
    co_await std::move(spreading);
  }
}

void Member::report_step(std::uint64_t turn) {
  const config::Train& t = compute_.settings().train;
  wire::StepReport report{.step = step_of(turn) + 1, .lr = lr_, .grad_norm = grad_norm_};
  report.pulled = gradient_turns_ == 0;
  report.loss = sums_.loss / std::max(1.0, sums_.terms);
  report.samples = sums_.samples;
  report.tokens = sums_.tokens;
  for (const auto& [updates, micro_batches] : record().staleness) {
    if (micro_batches > staleness_[updates]) report.staleness = updates;
  }
  staleness_ = record().staleness;
  report.rounds_failed = method_->rounds_failed();
  const Duration waited = waited_ + record().waited_forward + record().waited_backward;
  const Time now = clock_.now();
  report.wait_seconds = seconds(waited - waited_before_);
  report.compute_seconds = seconds(now - step_began_) - report.wait_seconds;
  if (t.log_every > 0 && static_cast<std::int64_t>(report.step) % t.log_every == 0) {
    report.drift = method_->drift(copy());
  }
  waited_before_ = waited;
  step_began_ = now;
  sums_ = {};
  gradient_turns_ = 0;
  report_(report);
}

std::size_t Member::exact_slots(bool changing) { return changing ? kOccasions * kSlots + 1 : kSlots; }

bool Member::averages_copies(std::size_t slot) { return slot < kOccasions * kSlots && slot % kSlots != kSumsSlot; }

// Numbers of an occasion's rounds are the same for all, whenever they came.
sync::Which Member::exact_round(Occasion occasion, std::size_t what) const {
  if (!place().changing) return what;
  const config::Train& t = compute_.settings().train;
  std::int64_t every = 0;
  if (occasion == Occasion::kEvaluation) every = t.eval_every;
  if (occasion == Occasion::kCheckpoint) every = t.checkpoint_every;
  const std::int64_t number = every > 0 ? (steps_done() + every - 1) / every : 0;
  return {static_cast<std::size_t>(occasion) * kSlots + what, static_cast<std::uint64_t>(number),
          std::max<std::uint64_t>(1, turn_)};
}

// `skip_equal`: what is equal on all peers is taken as it is, instead of an average that rounds. A copy that is the
// only one is its own average, for which no memory is taken.
Task<Member::Average> Member::average(Occasion occasion, bool skip_equal) {
  if (place().weights.size() == 1) co_return Average{};
  const std::span<const float> parameters = compute_.parameters(), buffers = compute_.buffers();
  Average average{.values = {parameters.begin(), parameters.end()}, .buffers = {buffers.begin(), buffers.end()}};
  std::vector<std::unique_ptr<sync::Round>> rounds;
  const auto begin_round = [&](const Ring& ring, std::size_t what, std::vector<float>& all, std::size_t begin,
                               std::size_t end) {
    rounds.push_back(ring.exact->average(exact_round(occasion, what), std::span(all).subspan(begin, end - begin),
                                         ring.place.share(), {}));
  };
  for (const Ring& ring : connections_.rings) {
    begin_round(ring, kOtherSlot, average.buffers, compute_.buffers_begin_of(ring.layers.begin),
                compute_.buffers_begin_of(ring.layers.end));
    if (skip_equal && is_synchronous(schedule_.schedule) && method_->keeps_copies_equal(turn_)) continue;
    begin_round(ring, kValuesSlot, average.values, compute_.begin_of(ring.layers.begin),
                compute_.begin_of(ring.layers.end));
  }
  for (const auto& round : rounds) {
    auto finishing = round->finish();
    co_await std::move(finishing);
  }
  co_return average;
}

// Up to a factor that is the same for all numbers: over the stages of each cluster, then over clusters, and back.
Task<> Member::sum_over_all(Occasion occasion, std::span<float> numbers) {
  const auto sum_over_stages = [this, numbers]() -> Task<> {
    if (stage_.stages == 1) co_return;
    const auto summing = connections_.cluster.rounds->average(0, numbers, 1.0f, {});
    auto summed = summing->finish();
    co_await std::move(summed);
  };
  auto within = sum_over_stages();
  co_await std::move(within);
  if (stage_.is_first() && place().weights.size() > 1) {
    const auto weight = static_cast<float>(place().weights[place().cluster]);
    for (float& number : numbers) number /= weight;
    const auto summing =
        connections_.rings.front().exact->average(exact_round(occasion, kSumsSlot), numbers, place().share(), {});
    auto summed = summing->finish();
    co_await std::move(summed);
  } else if (!stage_.is_first()) {
    std::ranges::fill(numbers, 0.0f);
  }
  auto back = sum_over_stages();
  co_await std::move(back);
}

void Member::swap_in(Average& average) {
  std::ranges::swap_ranges(average.values, copy().parameters);
  std::ranges::swap_ranges(average.buffers, compute_.buffers());
}

Task<std::optional<Evaluation>> Member::evaluate(data::Split split, std::uint64_t samples,
                                                 const std::atomic<bool>* stop) {
  const Occasion occasion = split == data::Split::kEval ? Occasion::kEvaluation : Occasion::kTest;
  auto averaging = average(occasion, false);
  Average mean = co_await std::move(averaging);
  const std::span<const float> parameters = copy().parameters;
  double distance = 0;
  for (std::size_t i = 0; i < mean.values.size(); ++i) {
    const double difference = static_cast<double>(parameters[i]) - static_cast<double>(mean.values[i]);
    distance += difference * difference;
  }
  swap_in(mean);
  auto showing = spread(true);
  co_await std::move(showing);
  const std::uint64_t available = std::min(samples, compute_.samples_in(split)), clusters = place().weights.size();
  auto passing =
      passing_.pass(split, available * place().cluster / clusters, available * (place().cluster + 1) / clusters, stop);
  const std::optional<LossReport> own = co_await std::move(passing);
  swap_in(mean);
  auto hiding = spread(true);
  co_await std::move(hiding);

  const LossReport report = own.value_or(LossReport{});
  const auto terms = static_cast<double>(report.loss_terms);
  std::vector<float> numbers = {static_cast<float>(report.loss * terms),
                                static_cast<float>(report.accuracy * terms),
                                static_cast<float>(terms),
                                static_cast<float>(distance),
                                own ? 0.0f : 1.0f,
                                stage_.is_first() ? 1.0f : 0.0f};
  auto summing = sum_over_all(occasion, numbers);
  co_await std::move(summing);
  if (numbers[4] > 0) co_return std::nullopt;
  const double all = std::max(1e-30, static_cast<double>(numbers[2])), copies = static_cast<double>(numbers[5]);
  const LossReport total{.loss = static_cast<double>(numbers[0]) / all,
                         .accuracy = static_cast<double>(numbers[1]) / all};
  co_return Evaluation{total, std::sqrt(static_cast<double>(numbers[3]) / copies)};
}

Task<std::optional<LossReport>> Member::evaluate_own(data::Split split, std::uint64_t samples,
                                                     const std::atomic<bool>* stop) {
  return passing_.pass(split, 0, samples, stop);
}

Task<> Member::settle() {
  auto settling = method_->settle(copy());
  co_await std::move(settling);
  auto spreading = spread(true);
  co_await std::move(spreading);
}

Task<> Member::agree() {
  auto averaging = average(Occasion::kEnd, true);
  Average mean = co_await std::move(averaging);
  swap_in(mean);
  auto spreading = spread(true);
  co_await std::move(spreading);
}

std::vector<wire::SegmentDigest> Member::digests() {
  const std::span<const float> values = compute_.parameters(), buffers = compute_.buffers();
  std::vector<wire::SegmentDigest> result;
  for (const Ring& ring : connections_.rings) {
    const auto part = [&](std::span<const float> all, std::size_t begin, std::size_t end) {
      return digest(std::as_bytes(all.subspan(begin, end - begin)));
    };
    const std::string both =
        part(values, compute_.begin_of(ring.layers.begin), compute_.begin_of(ring.layers.end)) +
        part(buffers, compute_.buffers_begin_of(ring.layers.begin), compute_.buffers_begin_of(ring.layers.end));
    result.push_back({static_cast<std::uint32_t>(ring.segment), digest(std::as_bytes(std::span(both)))});
  }
  return result;
}

Task<bool> Member::all_say(bool yes) {
  std::vector<float> noes = {yes ? 0.0f : 1.0f};
  if (stage_.stages > 1) {
    const auto counting = connections_.cluster.rounds->average(0, noes, 1.0f, {});
    auto counted = counting->finish();
    co_await std::move(counted);
  }
  co_return noes[0] == 0;
}

Task<> Member::with_average(std::function<void()> use, bool last) {
  auto averaging = average(last ? Occasion::kLastCheckpoint : Occasion::kCheckpoint, true);
  Average mean = co_await std::move(averaging);
  swap_in(mean);
  std::exception_ptr failure;
  try {
    use();
  } catch (...) {
    failure = std::current_exception();
  }
  swap_in(mean);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rookery::train

#include "train/member.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sync/segmented.h"
#include "tensor/kernels/update.h"
#include "tensor/schedule.h"
#include "train/setup.h"
#include "train/tensor_border.h"

namespace rookery::train {
namespace {

using pipeline::Admission;
using pipeline::Border;

constexpr std::size_t kValuesSlot = 0, kOtherSlot = 1;  // of exact rounds

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Connections checked(const config::Settings& settings, Connections connections) {
  check_device(settings.train);
  ROOKERY_CHECK(!connections.rings.empty());
  for (const Ring& ring : connections.rings) check_method(settings, ring.place);
  return connections;
}

// One method, or one for each segment. What is set in steps is counted in turns, of which each step has so many.
std::unique_ptr<sync::Method> method_of(Executor executor, const Trainee& trainee, const std::vector<Ring>& rings,
                                        std::uint64_t turns_per_step) {
  config::Settings settings = trainee.settings();
  for (std::int64_t* steps : {&settings.sync.interval, &settings.sync.delay, &settings.sync.warmup_steps}) {
    *steps *= static_cast<std::int64_t>(turns_per_step);
  }
  if (rings.size() == 1) return make_method(settings, rings[0].place, *rings[0].rounds);
  std::vector<sync::Segmented::Part> parts;
  for (const Ring& ring : rings) {
    parts.push_back({.begin = trainee.stage().begin_of(ring.layers.begin),
                     .end = trainee.stage().begin_of(ring.layers.end),
                     .method = make_method(settings, ring.place, *ring.rounds)});
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

Member::Member(Clock& clock, Trainee& trainee, plan::StagePlace stage, plan::ScheduleOptions schedule,
               Connections connections)
    : clock_(clock),
      trainee_(trainee),
      stage_(stage),
      schedule_(schedule),
      connections_(checked(trainee.settings(), std::move(connections))),
      method_(method_of(clock.executor(), trainee, connections_.rings, turns_per_step())),
      runner_(clock, schedule, stage, *connections_.training, *this),
      passing_(clock, trainee, stage, *connections_.evaluations) {
  if (trainee.settings().sync.average_moments) {
    for (const auto& state : trainee.stage().optimizer().state()) moments_.push_back(floats(state.values));
  }
  trainee.stage().store().zero_gradients();
  method_->start(copy());
}

sync::Copy Member::copy() {
  const ParameterStore& store = trainee_.stage().store();
  return {.parameters = floats(store.values()), .gradients = floats(store.gradients()), .moments = moments_};
}

void Member::resume(std::int64_t steps_done, std::int64_t samples_done) {
  ROOKERY_CHECK(turn_ == 0, "turn_ = {}", turn_);
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
Member::Slice Member::slice_of(std::uint64_t micro_batch) const {
  const std::uint64_t number = first_micro_batch_ + micro_batch;
  return {.block = static_cast<std::int64_t>(number / schedule_.micro_batches),
          .index = static_cast<std::int64_t>(number % schedule_.micro_batches)};
}

const Batch& Member::block(std::int64_t number) {
  if (!block_ || block_->first != number) {
    const auto clusters = static_cast<std::int64_t>(place().weights.size());
    const auto cluster = static_cast<std::int64_t>(place().cluster);
    block_.emplace(number,
                   trainee_.batch(first_sample_ + (number * clusters + cluster) * trainee_.settings().train.batch));
  }
  return block_->second;
}

// Each loss term counts the same, whichever cluster has it: everybody divides by what a batch could have at most, and
// the mean is made good once it is known how many there are.
bool Member::counts_terms(std::uint64_t turn) const {
  const Problem problem = trainee_.data().info().problem;
  const bool vary = problem == Problem::kMaskedLanguageModel || problem == Problem::kTranslation;
  return vary && is_synchronous(schedule_.schedule) && method_->averages_gradients(turn);
}

// What the summed loss of an update's micro-batches is divided by.
double Member::divisor(std::uint64_t update) {
  if (counts_terms(turn_of(update))) {
    return static_cast<double>(block(slice_of(update * schedule_.group()).block).targets.numel());
  }
  std::int64_t terms = 0;
  for (std::uint64_t i = 0; i < schedule_.group(); ++i) {
    const Slice part = slice_of(update * schedule_.group() + i);
    terms += slice(block(part.block), part.index, static_cast<std::int64_t>(schedule_.micro_batches)).loss_terms;
  }
  return static_cast<double>(std::max<std::int64_t>(1, terms));
}

model::Pass Member::pass_of(std::uint64_t micro_batch) {
  const std::uint64_t update = micro_batch / schedule_.group(), turn = turn_of(update);
  const std::uint64_t within = turn % turns_per_step() * schedule_.group() + micro_batch % schedule_.group();
  model::Pass pass{.training = true, .key = trainee_.dropout_key(step_of(turn), place().cluster) + within};
  // What other stages contribute to tied parameters comes after the backward.
  const bool is_last_of_update = (micro_batch + 1) % schedule_.group() == 0;
  if (is_last_of_update && connections_.ties.empty()) {
    pass.reached = [this, turn](std::size_t layer) {
      keep_pace_now();
      method_->gradients_ready(turn, trainee_.stage().begin_of(layer), copy());
    };
  }
  return pass;
}

void Member::keep_pace_now() {
  if (pace_ != nullptr) pace_->keep();
}

Task<> Member::wait_for(Task<> task) {
  const Time before = clock_.now();
  co_await std::move(task);
  waited_ += clock_.now() - before;
}

Task<> Member::run(std::int64_t until, Gate gate, Report report) {
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
      auto waiting = connections_.training->changed().wait();
      co_await std::move(waiting);
    }
  }
}

Admission Member::admit(std::uint64_t micro_batch) {
  return gate_(step_of(turn_of(micro_batch / schedule_.group())) + 1);
}

Task<Border> Member::forward(Border input) {
  const std::uint64_t number = input.micro_batch, update = number / schedule_.group(), turn = turn_of(update);
  if (is_synchronous(schedule_.schedule)) {  // else the weights are those of another turn anyway
    auto pulling = pull_until(turn);
    co_await std::move(pulling);
  }
  if (pace_ != nullptr) pace_->begin(static_cast<std::int64_t>(step_of(turn)), Pace::Kind::kForward);
  if (!input.squares.empty()) squares_before_ = input.squares;
  const Slice place = slice_of(number);
  Batch data;
  if (stage_.is_first() || stage_.is_last()) {
    data = slice(block(place.block), place.index, static_cast<std::int64_t>(schedule_.micro_batches));
  }
  const Tensors inputs = stage_.is_first() ? data.inputs : to_tensors(input);
  Border output;
  if (stage_.is_last()) {
    const ops::LossSum loss = trainee_.stage().loss(number, inputs, data.targets, pass_of(number), divisor(update));
    loss_ += loss.sum.item<double>();
    terms_ += static_cast<double>(data.loss_terms);
    samples_ += static_cast<std::uint64_t>(data.samples);
    tokens_ += static_cast<std::uint64_t>(data.tokens);
  } else {
    output = to_border(trainee_.stage().forward(number, inputs, pass_of(number)));
    output.squares = squares_before_;
    output.squares.push_back(squares_);
  }
  keep_pace_now();
  co_return output;
}

Task<Border> Member::backward(Border gradients) {
  const std::uint64_t number = gradients.micro_batch;
  const std::uint64_t turn = turn_of(number / schedule_.group());
  const bool is_last = (number + 1) % schedule_.group() == 0;
  if (pace_ != nullptr) {
    pace_->begin(static_cast<std::int64_t>(step_of(turn)), is_last ? Pace::Kind::kLastBackward : Pace::Kind::kBackward);
  }
  if (!gradients.squares.empty()) squares_after_ = gradients.squares;
  Border back = to_border(trainee_.stage().backward(number, to_tensors(gradients)));
  back.squares = squares_after_;
  back.squares.push_back(squares_);
  keep_pace_now();
  co_return back;
}

// What the method does to the parameters on the occasion.
Around Member::around_update() {
  if (!method_->works_on_blocks()) return {};
  return {.before = [this](std::size_t begin, std::size_t end) { method_->before_block(begin, end, copy()); },
          .after = [this](std::size_t begin, std::size_t end) { method_->after_block(begin, end, copy()); }};
}

Task<> Member::update(std::uint64_t /*number*/) {
  const config::Train& t = trainee_.settings().train;
  const std::uint64_t turn = turn_of(updates_), step = step_of(turn);
  auto pulling = pull_until(turn);
  co_await std::move(pulling);
  for (Tie& tie : connections_.ties) {
    auto gathering = wait_for(tie.gather_gradients());
    co_await std::move(gathering);
  }
  double scale = 1;
  std::vector<float> terms;
  std::unique_ptr<sync::Round> counting;
  if (counts_terms(turn)) {
    const Batch& batch = block(slice_of(updates_ * schedule_.group()).block);
    scale = static_cast<double>(batch.targets.numel());
    terms = {static_cast<float>(batch.loss_terms)};
    counting = connections_.rings[0].exact->average(kOtherSlot, terms, place().share(), {});
  }
  auto averaging = wait_for(method_->before_update(turn, copy()));
  co_await std::move(averaging);
  if (counting) {
    auto counted = wait_for(counting->finish());
    co_await std::move(counted);
    scale /= std::max(1e-6, static_cast<double>(terms[0]));
  }
  auto clipping = clipped(scale);
  const double factor = co_await std::move(clipping);
  lr_ = learning_rate(schedule_options(t), static_cast<std::int64_t>(step)) * method_->lr_factor(turn);
  trainee_.stage().update(lr_, factor, around_update());
  trainee_.stage().store().zero_gradients();
  if (!std::isfinite(loss_) || !std::isfinite(grad_norm_)) {
    throw Error("the loss is no longer a number at step {}; lower train.lr (now {}) or raise train.warmup", step + 1,
                t.lr);
  }
  ++gradient_turns_;
  ++updates_;
  turns_.pop_front();
  auto ending = end_turn();
  co_await std::move(ending);
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
    const std::size_t begin = trainee_.stage().begin_of(ring.layers.begin);
    const std::size_t size = trainee_.stage().begin_of(ring.layers.end) - begin;
    squares[ring.segment] = static_cast<float>(kernels::sum_of_squares(gradients.subspan(begin, size)) * scale * scale);
  }
  squares_ = sum_of(squares);
  grad_norm_ = std::sqrt(squares_);
  const double clip = trainee_.settings().train.clip;
  if (clip <= 0) co_return scale;
  double all = squares_ + sum_of(squares_before_) + sum_of(squares_after_);
  if (is_synchronous(schedule_.schedule)) {
    if (stage_.stages > 1) {
      const auto summing = connections_.cluster->average(0, squares, 1.0f, {});
      auto summed = wait_for(summing->finish());
      co_await std::move(summed);
    }
    all = sum_of(squares);
  }
  co_return clip_scale(std::sqrt(all), clip) * scale;
}

// Turns without gradients that come before this one.
Task<> Member::pull_until(std::uint64_t turn) {
  const config::Train& t = trainee_.settings().train;
  while (turn_ < turn && method_->move(turn_) == sync::Move::kPull) {
    const auto step = static_cast<std::int64_t>(step_of(turn_));
    if (pace_ != nullptr) pace_->begin(step, Pace::Kind::kOther);
    lr_ = learning_rate(schedule_options(t), step) * method_->lr_factor(turn_);
    trainee_.stage().before_change();
    method_->pull(turn_, learning_rate(schedule_options(t), step) / t.lr, copy());
    keep_pace_now();
    auto ending = end_turn();
    co_await std::move(ending);
  }
}

// The method's part after an update or a pull, and what follows from it.
Task<> Member::end_turn() {
  const std::uint64_t turn = turn_++;  // whatever happens now, the update is made
  auto done = wait_for(method_->after_step(turn, copy()));
  co_await std::move(done);
  auto spreading = wait_for(spread(is_synchronous(schedule_.schedule)));
  co_await std::move(spreading);
  if (turn_ % turns_per_step() == 0) report_step(turn);
}

Task<> Member::spread(bool waits) {
  for (Tie& tie : connections_.ties) {
    auto spreading = tie.spread_values(waits);
    co_await std::move(spreading);
  }
}

void Member::report_step(std::uint64_t turn) {
  const config::Train& t = trainee_.settings().train;
  wire::StepReport report{.step = step_of(turn) + 1, .lr = lr_, .grad_norm = grad_norm_};
  report.pulled = gradient_turns_ == 0;
  report.loss = loss_ / std::max(1.0, terms_);
  report.samples = samples_;
  report.tokens = tokens_;
  const Duration waited = waited_ + record().waited_forward + record().waited_backward;
  const Time now = clock_.now();
  report.wait_seconds = seconds(waited - waited_before_);
  report.compute_seconds = seconds(now - step_began_) - report.wait_seconds;
  if (t.log_every > 0 && static_cast<std::int64_t>(report.step) % t.log_every == 0) {
    report.drift = method_->drift(copy());
  }
  waited_before_ = waited;
  step_began_ = now;
  loss_ = terms_ = 0;
  samples_ = tokens_ = gradient_turns_ = 0;
  report_(report);
}

// `skip_equal`: what is equal on all peers is taken as it is, instead of an average that rounds.
Task<Member::Average> Member::average(bool skip_equal) {
  const Stage& stage = trainee_.stage();
  const std::span<const float> parameters = copy().parameters, buffers = floats(stage.store().buffers());
  Average average{.values = {parameters.begin(), parameters.end()}, .buffers = {buffers.begin(), buffers.end()}};
  std::vector<std::unique_ptr<sync::Round>> rounds;
  for (const Ring& ring : connections_.rings) {
    const std::size_t begin = stage.buffers_begin_of(ring.layers.begin), end = stage.buffers_begin_of(ring.layers.end);
    rounds.push_back(ring.exact->average(kOtherSlot, std::span(average.buffers).subspan(begin, end - begin),
                                         ring.place.share(), {}));
    if (skip_equal && is_synchronous(schedule_.schedule) && method_->keeps_copies_equal(turn_)) continue;
    const std::size_t from = stage.begin_of(ring.layers.begin), to = stage.begin_of(ring.layers.end);
    rounds.push_back(
        ring.exact->average(kValuesSlot, std::span(average.values).subspan(from, to - from), ring.place.share(), {}));
  }
  for (const auto& round : rounds) {
    auto finishing = round->finish();
    co_await std::move(finishing);
  }
  co_return average;
}

void Member::swap_in(Average& average) {
  std::ranges::swap_ranges(average.values, copy().parameters);
  std::ranges::swap_ranges(average.buffers, floats(trainee_.stage().store().buffers()));
}

Task<std::optional<Evaluation>> Member::evaluate(data::Split split, std::uint64_t samples,
                                                 const std::atomic<bool>* stop) {
  auto averaging = average(false);
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
  const std::uint64_t available = std::min(samples, trainee_.data().size(split)), clusters = place().weights.size();
  auto passing =
      passing_.pass(split, available * place().cluster / clusters, available * (place().cluster + 1) / clusters, stop);
  const std::optional<LossReport> own = co_await std::move(passing);
  swap_in(mean);
  auto hiding = spread(true);
  co_await std::move(hiding);

  const LossReport report = own.value_or(LossReport{});
  const auto terms = static_cast<double>(report.loss_terms);
  std::vector<float> numbers = {static_cast<float>(report.loss * terms), static_cast<float>(report.accuracy * terms),
                                static_cast<float>(terms), static_cast<float>(distance), own ? 0.0f : 1.0f};
  const auto summing = connections_.everybody->average(0, numbers, 1.0f, {});
  auto summed = summing->finish();
  co_await std::move(summed);
  if (numbers[4] > 0) co_return std::nullopt;
  const double all = std::max(1.0, static_cast<double>(numbers[2]));
  const LossReport total{.loss = static_cast<double>(numbers[0]) / all,
                         .accuracy = static_cast<double>(numbers[1]) / all,
                         .loss_terms = static_cast<std::int64_t>(all)};
  co_return Evaluation{total, std::sqrt(static_cast<double>(numbers[3]) / static_cast<double>(clusters))};
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
  auto averaging = average(true);
  Average mean = co_await std::move(averaging);
  swap_in(mean);
  auto spreading = spread(true);
  co_await std::move(spreading);
}

Task<> Member::with_average(std::function<void()> use) {
  auto averaging = average(true);
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

#include "train/member.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/schedule.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

constexpr std::size_t kValuesSlot = 0, kBuffersSlot = 1, kNumbersSlot = 2, kTermsSlot = 3;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Place checked(const config::Settings& settings, Place place) {
  check_device(settings.train);
  check_method(settings, place);
  return place;
}

}  // namespace

Member::Member(Clock& clock, Trainee& trainee, Place place, sync::Rounds& rounds, sync::Rounds& exact)
    : clock_(clock),
      trainee_(trainee),
      place_(checked(trainee.settings(), std::move(place))),
      exact_(exact),
      method_(make_method(trainee.settings(), place_, rounds)) {
  if (trainee.settings().sync.average_moments) {
    for (const auto& state : trainee.stage().optimizer().state()) moments_.push_back(floats(state.values));
  }
  method_->start(copy());
}

sync::Copy Member::copy() {
  const ParameterStore& store = trainee_.stage().store();
  return {.parameters = floats(store.values()), .gradients = floats(store.gradients()), .moments = moments_};
}

void Member::resume(std::int64_t steps_done, std::int64_t samples_done) {
  ROOKERY_CHECK(step_ == 0, "step_ = {}", step_);
  step_ = steps_done;
  if (!method_->pulls()) {
    first_sample_ = samples_done;
    return;
  }
  // Each cluster has used as many blocks as it has not pulled.
  for (std::int64_t i = 0; i < steps_done; ++i) {
    gradient_steps_ += method_->move(static_cast<std::uint64_t>(i)) == sync::Move::kGradient ? 1 : 0;
  }
}

bool Member::terms_vary() const {
  const Problem problem = trainee_.data().info().problem;
  return problem == Problem::kMaskedLanguageModel || problem == Problem::kTranslation;
}

// What the method does to the parameters on the occasion.
Around Member::around_update() {
  if (!method_->works_on_blocks()) return {};
  return {.before = [this](std::size_t begin, std::size_t end) { method_->before_block(begin, end, copy()); },
          .after = [this](std::size_t begin, std::size_t end) { method_->after_block(begin, end, copy()); }};
}

void Member::keep_pace() {
  if (pace_ != nullptr) pace_->keep();
}

Task<> Member::wait_for(Task<> task, Duration& waited) {
  const Time before = clock_.now();
  co_await std::move(task);
  const Duration took = clock_.now() - before;
  waited += took;
  if (pace_ != nullptr) pace_->waited(took);
}

Task<wire::StepReport> Member::step() {
  const config::Train& t = trainee_.settings().train;
  const auto step = static_cast<std::uint64_t>(step_);
  const double lr = learning_rate(schedule_options(t), step_) * method_->lr_factor(step);
  wire::StepReport report{.step = step + 1, .lr = lr};
  Duration waited{};
  const Time start = clock_.now();
  const bool pulls = method_->move(step) == sync::Move::kPull;
  if (pace_ != nullptr) pace_->begin(step_, pulls ? Pace::Kind::kOther : Pace::Kind::kGradient);
  if (pulls) {
    method_->pull(step, learning_rate(schedule_options(t), step_) / t.lr, copy());
    report.pulled = true;
  } else {
    // The k-th gradient step of cluster i takes the i-th slice of block k.
    const auto clusters = static_cast<std::int64_t>(place_.weights.size());
    const auto cluster = static_cast<std::int64_t>(place_.cluster);
    const std::int64_t first = first_sample_ + (gradient_steps_ * clusters + cluster) * t.batch;
    const Batch batch = trainee_.batch(first);
    // Each loss term counts the same, whichever peer has it: everybody divides by what a batch could have at most, and
    // the mean is made good once it is known how many there are.
    std::vector<float> terms = {static_cast<float>(batch.loss_terms)};
    std::unique_ptr<sync::Round> counting;
    std::optional<double> divisor;
    if (terms_vary() && method_->averages_gradients(step)) {
      divisor = static_cast<double>(batch.targets.numel());
      counting = exact_.average(kTermsSlot, terms, place_.share(), {});
    }
    const auto ready = [&](std::size_t from) {
      keep_pace();
      method_->gradients_ready(step, from, copy());
    };
    const LossReport passed = trainee_.accumulate_gradients(batch, step_, cluster, ready, divisor);
    keep_pace();
    auto averaged = wait_for(method_->before_update(step, copy()), waited);
    co_await std::move(averaged);
    double scale = 1;
    if (counting) {
      auto counted = wait_for(counting->finish(), waited);
      co_await std::move(counted);
      scale = *divisor / std::max(1e-6, static_cast<double>(terms[0]));
    }
    report.grad_norm = Learner(trainee_.stage()).update(lr, t.clip, around_update(), scale);
    report.loss = passed.loss;
    report.samples = static_cast<std::uint64_t>(batch.samples);
    report.tokens = static_cast<std::uint64_t>(batch.tokens);
    if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
      throw Error("the loss is no longer a number at step {}; lower train.lr (now {}) or raise train.warmup", step_ + 1,
                  t.lr);
    }
    ++gradient_steps_;
  }
  ++step_;  // whatever happens now, the update is made
  keep_pace();
  auto done = wait_for(method_->after_step(step, copy()), waited);
  co_await std::move(done);
  if (t.log_every > 0 && step_ % t.log_every == 0) report.drift = method_->drift(copy());
  report.wait_seconds = seconds(waited);
  report.compute_seconds = seconds(clock_.now() - start - waited);
  co_return report;
}

// `skip_equal`: what is equal on all peers is taken as it is, instead of an average that rounds.
Task<> Member::average_into(std::vector<float>& values, std::vector<float>& buffers, bool skip_equal) {
  const std::span<const float> parameters = copy().parameters,
                               own_buffers = floats(trainee_.stage().store().buffers());
  values.assign(parameters.begin(), parameters.end());
  buffers.assign(own_buffers.begin(), own_buffers.end());
  const auto second = exact_.average(kBuffersSlot, buffers, place_.share(), {});
  if (!skip_equal || !method_->keeps_copies_equal(static_cast<std::uint64_t>(step_))) {
    const auto first = exact_.average(kValuesSlot, values, place_.share(), {});
    co_await first->finish();
  }
  co_await second->finish();
}

void Member::swap_in(std::vector<float>& values, std::vector<float>& buffers) {
  std::swap_ranges(values.begin(), values.end(), copy().parameters.begin());
  std::swap_ranges(buffers.begin(), buffers.end(), floats(trainee_.stage().store().buffers()).begin());
}

Task<std::optional<Evaluation>> Member::evaluate(data::Split split, std::uint64_t samples,
                                                 const std::atomic<bool>* stop) {
  std::vector<float> mean, mean_buffers;
  auto averaged = average_into(mean, mean_buffers, false);
  co_await std::move(averaged);
  const std::span<const float> parameters = copy().parameters;
  double distance = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double difference = static_cast<double>(parameters[i]) - static_cast<double>(mean[i]);
    distance += difference * difference;
  }
  swap_in(mean, mean_buffers);
  const std::uint64_t available = std::min(samples, trainee_.data().size(split)), clusters = place_.weights.size();
  static const std::atomic<bool> never = false;
  const auto own = trainee_.evaluate(split, available * place_.cluster / clusters,
                                     available * (place_.cluster + 1) / clusters, stop != nullptr ? *stop : never);
  swap_in(mean, mean_buffers);

  const LossReport report = own.value_or(LossReport{});
  const auto terms = static_cast<double>(report.loss_terms);
  std::vector<float> numbers = {static_cast<float>(report.loss * terms), static_cast<float>(report.accuracy * terms),
                                static_cast<float>(terms), static_cast<float>(distance), own ? 0.0f : 1.0f};
  const auto summed = exact_.average(kNumbersSlot, numbers, 1.0f, {});
  co_await summed->finish();
  if (numbers[4] > 0) co_return std::nullopt;
  const double all = std::max(1.0, static_cast<double>(numbers[2]));
  const LossReport total{.loss = static_cast<double>(numbers[0]) / all,
                         .accuracy = static_cast<double>(numbers[1]) / all,
                         .loss_terms = static_cast<std::int64_t>(all)};
  co_return Evaluation{total, std::sqrt(static_cast<double>(numbers[3]) / static_cast<double>(clusters))};
}

Task<> Member::settle() { return method_->settle(copy()); }

Task<> Member::agree() {
  std::vector<float> mean, mean_buffers;
  auto averaged = average_into(mean, mean_buffers, true);
  co_await std::move(averaged);
  swap_in(mean, mean_buffers);
}

Task<> Member::with_average(std::function<void()> use) {
  std::vector<float> mean, mean_buffers;
  auto averaged = average_into(mean, mean_buffers, true);
  co_await std::move(averaged);
  swap_in(mean, mean_buffers);
  std::exception_ptr failure;
  try {
    use();
  } catch (...) {
    failure = std::current_exception();
  }
  swap_in(mean, mean_buffers);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rookery::train

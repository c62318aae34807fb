#include <algorithm>
#include <variant>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr std::size_t kMaxStrangers = 64;

using net::Failure;
using net::LinkError;

}  // namespace

Task<> Coordinator::Core::admit(std::shared_ptr<Core> self) {
  try {
    for (;;) {
      auto accepting = self->host_.accept();
      net::Meeting meeting = co_await std::move(accepting);
      if (self->closed_) {
        meeting.link->close(LinkError(Failure::kRefused, "", "the run is over"));
        continue;
      }
      if (self->strangers_ == kMaxStrangers) {
        meeting.link->close(LinkError(Failure::kRefused, "", "too many have come at once; try again"));
        continue;
      }
      ++self->strangers_;
      const auto seat = std::make_shared<Seat>(self->clock_, std::move(meeting), self->options_.aside);
      seat->expect_by(self->clock_.now() + self->options_.introduction, "introduce itself");
      boost::asio::co_spawn(self->clock_.executor(), serve(self, seat), boost::asio::detached);
    }
  } catch (const LinkError&) {
    // The host was closed.
  }
}

Task<> Coordinator::Core::serve(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat) {
  std::string why;
  bool is_silent = false;
  try {
    while (!self->closed_) {
      auto hearing = seat->talk->hear();
      const wire::SwarmMessage message = co_await std::move(hearing);
      if (self->closed_ || seat->is_replaced) break;
      if (const auto* returned = std::get_if<wire::Returned>(&message); returned != nullptr && !seat->introduction) {
        self->take_back(seat, *returned);
        continue;
      }
      if (const auto* look = std::get_if<wire::Look>(&message); look != nullptr && !seat->introduction) {
        auto showing = show(self, seat, *look);
        co_await std::move(showing);
        continue;
      }
      if (!seat->introduction != std::holds_alternative<wire::Introduction>(message) || seat->ended) {
        throw wire::WireError("said something out of turn");
      }
      const bool is_answer =
          std::holds_alternative<wire::Ready>(message) || std::holds_alternative<wire::Failed>(message);
      const bool may_speak = !seat->introduction || self->rank_of(*seat) < self->seats_.size() ||
                             (is_answer && std::ranges::find(self->parked_, seat) == self->parked_.end());
      if (!may_speak) throw wire::WireError("said something out of turn");
      std::visit([&](const auto& content) { self->heard(*seat, content); }, message);
      if (!std::holds_alternative<wire::Activity>(message)) {
        self->goes_on();
        self->has_got_on();
      }
      if (std::holds_alternative<wire::Introduction>(message)) self->seat_down(seat);
      if (std::holds_alternative<wire::Saved>(message) && seat->unfetched.size() == 1) {
        boost::asio::co_spawn(self->clock_.executor(), keep(self, seat), boost::asio::detached);
      }
    }
  } catch (const LinkError& error) {
    why = error.text();
    is_silent = error.failure() == Failure::kSilent;
  } catch (const wire::WireError& error) {
    why = error.what();
    seat->close(LinkError(Failure::kProtocol, "", error.what()));
  } catch (const std::exception&) {
    self->break_off(std::current_exception());
  }
  seat->patience.cancel();
  if (!seat->introduction) --self->strangers_;
  if (self->closed_ || self->broken_ || seat->is_replaced) co_return;
  if (is_silent && self->may_return(*seat)) {
    self->expect_back(*seat, why, self->clock_.now());
  } else {
    self->gone(*seat, why);
  }
}

Task<> Coordinator::Core::show(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat, wire::Look look) {
  const auto decline = [&](const char* why) {
    const LinkError reason(Failure::kRefused, "", why);
    seat->close(reason);
    throw LinkError(reason);
  };
  seat->patience.cancel();
  std::string text;
  if (look.measured) {
    if (self->options_.measured) text = self->options_.measured();
    if (text.empty()) decline("its peers and links have not been measured yet; try again when it trains");
    if (text.size() > wire::kMaxShownBytes) decline("has too many links to name; they are in its run's peers.toml");
  } else {
    if (!self->options_.show) decline("the run is not shown: its dashboard is off");
    auto showing = self->options_.show();
    text = co_await std::move(showing);
    if (text.size() > wire::kMaxShownBytes) text = "{}";
  }
  seat->say(wire::Shown{.text = std::move(text)});
  seat->expect_by(self->clock_.now() + self->options_.introduction, "look again");
}

void Coordinator::Core::heard(Seat& seat, const wire::Introduction& introduction) {
  if (introduction.contact.name != seat.name()) throw wire::WireError("introduced itself by another name");
  if (stopping_ && !moving_) refuse(seat, "the run is over");
  if (expelled_.contains(seat.guest.key)) refuse(seat, "was expelled from this run");
  if (plan_ && !moving_ && !may_be_spare()) refuse(seat, "the run has begun without it, and no place is free");
  // Whoever begins anew does not return.
  const std::vector<std::shared_ptr<Seat>> seats = seats_;  // which may change
  for (const auto& other : seats) {
    const bool is_it = other->name() == seat.name() && other->guest.key == seat.guest.key;
    if (!is_it || !other->is_away || other->gone) continue;
    if (moving_) {
      has_ended(*other);
    } else {
      gone(*other, "has begun anew");
    }
  }
  const auto same_name = [&](const auto& other) { return other->name() == seat.name() && !other->gone; };
  const bool is_known = std::ranges::any_of(seats_, same_name) || std::ranges::any_of(latecomers_, same_name);
  const auto is_another = [&](const auto& other) { return same_name(other) && other->guest.key != seat.guest.key; };
  const bool is_taken = std::ranges::any_of(parked_, same_name) || std::ranges::any_of(seats_, is_another);
  if (moving_ ? is_taken : is_known) {
    refuse(seat, "another peer has the same name; choose one with --name");
  }
  if (!plan_ && !is_anew() && seats_.size() == options_.peers) refuse(seat, "the swarm is full");
  if (introduction.stands_in && (moving_ || !begun_)) refuse(seat, "nobody has to stand in any more");
  seat.introduction = introduction;
  --strangers_;
  seat.expect_by(clock_.now() + options_.preparation, "open its data and build its model");
}

void Coordinator::Core::seat_down(const std::shared_ptr<Seat>& seat) {
  if (moving_) return parked_.push_back(seat);
  awaited_.erase(seat->guest.key);
  seat->is_late = plan_.has_value() || (is_anew() && !is_gathering_);
  (seat->is_late ? latecomers_ : seats_).push_back(seat);
  watcher_.joined(*seat->introduction);
  relay_.serve(seat->link, seat->guest);
  wire::Assignment assignment{.settings = options_.settings};
  for (const OfferedFile& file : options_.data_files) assignment.data.push_back(file.facts);
  for (const OfferedFile& file : options_.checkpoint) {
    if (!seat->is_late) assignment.checkpoint.push_back(file.facts);
  }
  for (const auto* files : {&options_.data_files, &options_.checkpoint}) {
    for (const OfferedFile& file : *files) seat->files->offer(file.facts, file.path);
  }
  seat->say(assignment);
}

void Coordinator::Core::heard(Seat& seat, const wire::Ready& ready) {
  if (!seat.introduction || seat.ready) throw wire::WireError("was ready out of turn");
  seat.patience.cancel();
  if (stopping_) return;
  check(seat, ready);
  seat.ready = ready;
  watcher_.ready(seat.name(), ready);
  if (!seat.is_late) return plan_if_all_are_ready();
  settle_latecomers();
  have_second_thoughts();
}

void Coordinator::Core::check(Seat& seat, const wire::Ready& ready) {
  const bool same_model = ready.model == options_.model && ready.parameters == options_.parameters;
  if (ready.data != options_.data) refuse(seat, "its data is not the same as that of this run");
  if (!same_model) refuse(seat, "its version of the model is not the same as that of this run");
}

void Coordinator::Core::refuse(Seat& seat, const std::string& why) {
  tell([&] { watcher_.refused(seat.name(), why); });
  seat.refused = true;
  if (options_.only_these && !plan_ && !is_anew()) {
    give_up(fmt::format("{} cannot take part: {}", seat.name(), why));
  }
  const LinkError reason(Failure::kRefused, "", why);
  seat.close(reason);
  throw LinkError(reason);
}

}  // namespace rookery::swarm

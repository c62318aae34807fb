#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/error.h"
#include "net/host.h"
#include "swarm/files.h"
#include "wire/swarm_message.h"
#include "wire/ticket.h"

namespace rookery::swarm {

// What a peer does between its messages: it trains, or models training. Called on the peer's executor; what it does
// elsewhere is its own affair.
class Work {
 public:
  virtual ~Work() = default;

  // Opens the data and builds the model that it is asked for; what it lacks, it fetches from the coordinator's files,
  // which last until away(). Throws Error, one sentence, if it cannot.
  virtual Task<wire::Ready> prepare(wire::Assignment assignment, Files& coordinator) = 0;

  // Computes for a moment, as it will, while all others do: returns how much longer that takes than alone. 0: not
  // tried.
  virtual Task<double> try_out() { co_return 0; }

  struct Part {
    wire::Plan plan;
    std::size_t rank = 0;
    // By rank; nullptr for its own, and where nobody is. Others may come in the place of those who were lost: what
    // belongs to those lasts as long as all of this.
    const std::vector<net::Link*>* links = nullptr;
  };

  // Does this peer's part to the end, or until it is told to end; `report` passes on what the coordinator is to know.
  // Throws LinkError with the name of a peer that was lost, and Error if it cannot go on itself.
  using Report = std::function<void(const wire::SwarmMessage&)>;
  virtual Task<wire::Ended> train(Part part, Report report) = 0;

  // Somebody was lost, or has come, and this is the plan from now on, with the same places. There are links to those
  // who are `here`, or get what others have.
  virtual void changed(const wire::Plan& plan) = 0;

  // Begins no further step before it has heard where to end. Returns the last step that it has begun.
  virtual std::uint64_t halt() = 0;

  // Where to end: after this step, or after the last that was begun if that is a later one. After halt().
  virtual void end_at(std::uint64_t step) = 0;

  // Begins no further step before it is released, or told to end. Returns the last step that it has begun.
  virtual std::uint64_t hold() = 0;

  // Goes on. With `save_after`: there is a checkpoint after that step, which it has not gone beyond, and after which it
  // may hold again.
  virtual void release(std::optional<std::uint64_t> save_after, bool holds_again) = 0;

  // The coordinator has the checkpoint that was reported as saved.
  virtual void kept(std::uint64_t step) = 0;

  // All stages of its cluster have copies of each other, as they were after this step.
  virtual void covered(std::uint64_t /*step*/) {}

  // The coordinator cannot be heard for now, and its files are gone: the plan stays as it is. Rounds in which somebody
  // is lost have to wait.
  virtual void away() = 0;

  // It can again: files are given over another link, which has this, and what it may not have heard (that a cluster has
  // stopped, or has what it needs; that something was saved) is reported again. Steps and evaluations are not.
  virtual void returned(Files& coordinator) = 0;

  // The coordinator is lost: ends after the step that is under way, and expects nothing from it any more.
  virtual void abandon() = 0;

  // Everybody has ended, and the links go. Until then others may ask how rounds have ended, also after train().
  virtual void over() {}
};

struct PeerOptions {
  wire::Ticket ticket;                        // the coordinator's
  std::vector<std::string> addresses{};       // where others can dial this peer
  std::uint64_t memory = 0;                   // bytes it may use; 0: as many as it has
  std::string computer{};                     // equal on peers of one computer
  Duration links = std::chrono::seconds(60);  // to link up with all others
  std::function<void()> stand_in{};           // joins once more, as another peer; left out: it does not
  bool stands_in = false;                     // was joined in that way
  Duration patience{};                        // with a coordinator that is gone, but may return
  Aside aside{};                              // where long work goes
};

// The run goes on without this peer, though it could have gone on, or the coordinator was lost while it waited for its
// part, or there is to be another plan for all: it may join again.
class Displaced : public net::LinkError {
 public:
  Displaced(const net::LinkError& why, bool has_trained)
      : LinkError(why.failure(), why.peer(), why.text()), has_trained_(has_trained) {}

  bool has_trained() const { return has_trained_; }

 private:
  bool has_trained_;
};

// There is no link to the coordinator: it cannot be reached, or does not answer, or lets nobody in, or not this peer,
// whose link before it may not have missed yet. Whoever was there before may try again.
class NotMet : public net::LinkError {
  using LinkError::LinkError;
};

// A peer's life in a swarm: joins by the ticket, prepares, links up with the others, does its part, and stays until the
// coordinator lets it go. If the link to the coordinator ends meanwhile, it trains on, and makes another one. The host
// listens.
//
// Throws NotMet, LinkError if it is refused (with the reason) or the coordinator is lost, Displaced, and what the work
// throws.
Task<> take_part(Clock& clock, net::Host& host, PeerOptions options, Work& work);

}  // namespace rookery::swarm

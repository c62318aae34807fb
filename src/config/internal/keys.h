#pragma once

#include <concepts>
#include <type_traits>

#include "config/description.h"
#include "config/internal/rules.h"
#include "config/settings.h"

// The table of all keys. Reading, printing, suggestions and JSON all walk it, so a key is added with its member in
// settings.h and one line here. A walk is a visitor with
//   void key(name, value, comment, rule)        one setting;
//   void section(name, keys, comment)           a [table], to which keys_of() applies;
//   void list(name, list of keys, comment)      a [[table]] for every element.
namespace rookery::config::internal {

// The same line serves readers, which change the settings, and printers, which see them as constant.
template <typename T, typename Plain>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Plain>;

void keys_of(MaybeConst<Model> auto& s, auto& v) {
  const Whole size{.most = 1'000'000};
  // Not a Choice: programs add kinds of their own, so the registry of models checks the name.
  v.key("kind", s.kind,
        "gpt, gpt-neo-8m, gpt-neo-125m, bert, seq2seq, transformer-base, mlp, cnn, resnet18, resnet50, vgg16",
        kAnyText);
  v.key("layers", s.layers, "blocks of a transformer, hidden layers of an mlp", size);
  v.key("width", s.width, "features between layers", size);
  v.key("heads", s.heads, "attention heads; must divide the width", size);
  v.key("hidden", s.hidden, "features inside a feed-forward layer; by default 4 times the width", size);
  v.key("context", s.context, "tokens in a sequence", size);
  v.key("vocabulary", s.vocabulary, "different tokens; by default the tokenizer's", size);
  v.key("dropout", s.dropout, "share of activations that training drops at random", kBelowOne);
  v.key("classes", s.classes, "of an image classifier; by default the data's", size);
  v.key("channels", s.channels, "of an image; by default the data's", size);
  v.key("image_size", s.image_size, "height and width of an image in pixels; by default the data's", size);
  v.key("stem", s.stem, "first layers of a resnet, auto by image size", Choice{{"auto", "cifar", "imagenet"}});
}

void keys_of(MaybeConst<Data> auto& s, auto& v) {
  v.key("source", s.source,
        "tales or translation (need no download), a text file or a directory of them, a .bin of uint16 tokens, or a "
        "directory with "
        "MNIST IDX or CIFAR-10 files",
        kAnyText);
  v.key("tokenizer", s.tokenizer, "how text becomes tokens: bytes or sentencepiece:FILE", kTokenizer);
  v.key("augment", s.augment, "random crops and flips of CIFAR-10 images", Flag{});
  v.key("mask_probability", s.mask_probability, "share of tokens that bert has to guess", kShare);
}

void keys_of(MaybeConst<Train> auto& s, auto& v) {
  const Choice optimizers{{"sgd", "adam", "adamw", "accum-adam", "accum-adamw", "lamb"}};
  const Choice schedules{{"constant", "cosine", "inverse-sqrt", "linear"}};
  v.key("steps", s.steps, "length of the run", Whole{.least = 1});
  v.key("batch", s.batch, "samples per cluster and step", Whole{1, 1'000'000'000});
  v.key("micro_batches", s.micro_batches, "equal parts of a batch, computed one after another", Whole{1, 1'000'000});
  v.key("optimizer", s.optimizer, "update rule", optimizers);
  v.key("lr", s.lr, "peak learning rate", kPositive);
  v.key("weight_decay", s.weight_decay, "λ; decoupled from the gradient in adamw and lamb", kNotNegative);
  v.key("beta1", s.beta1, "decay of Adam's first moment", kBelowOne);
  v.key("beta2", s.beta2, "decay of Adam's second moment", kBelowOne);
  v.key("epsilon", s.epsilon, "added to the root of Adam's second moment", kPositive);
  v.key("momentum", s.momentum, "of sgd", kBelowOne);
  v.key("nesterov", s.nesterov, "look ahead along sgd's momentum", Flag{});
  v.key("accumulate", s.accumulate, "τ: steps after which accum-adam and accum-adamw commit their moments",
        Whole{1, 1'000'000});
  v.key("clip", s.clip, "largest norm of the whole gradient; 0: no limit", kNotNegative);
  v.key("warmup", s.warmup, "steps in which the learning rate rises to its peak", Whole{});
  v.key("schedule", s.schedule, "learning rate after warm-up", schedules);
  v.key("min_lr", s.min_lr, "where cosine and linear end, as a share of lr", kShare);
  v.key("seed", s.seed, "of everything random; the same seed gives the same run",
        Whole{.most = std::numeric_limits<std::int64_t>::max()});
  v.key("eval_every", s.eval_every, "steps between evaluations; 0: only at the end", Whole{});
  v.key("eval_batches", s.eval_batches, "batches in an evaluation; 0: no evaluations, nor a test at the end",
        Whole{.most = 1'000'000});
  v.key("checkpoint_every", s.checkpoint_every, "steps between checkpoints; 0: only at the end", Whole{});
  v.key("keep_checkpoints", s.keep_checkpoints, "latest checkpoints that are kept", Whole{1, 1'000'000});
  v.key("log_every", s.log_every, "steps between lines in log.txt; 0: none", Whole{});
  v.key("threads", s.threads, "that compute; 0: one for each core", Whole{.most = 4096});
  v.key("device", s.device, "that computes: cpu, cuda or cuda:N", kDevice);
}

void keys_of(MaybeConst<Swarm> auto& s, auto& v) {
  v.key("peers", s.peers, "processes that train together", Whole{1, 100'000});
  v.key("clusters", s.clusters,
        "copies of the model, whose peers share it as a pipeline; or the number of peers in each, e.g. [2, 5]",
        Or<ClusterSizes>{"auto"});
  v.key("goal", s.goal, "what plans are made for: the time to a loss, or samples a second",
        Choice{{"loss", "samples"}});
  v.key("buddy_every", s.buddy_every,
        "steps after which each stage of a lone cluster has a copy in another one's memory; 0: never",
        Or<Whole>{"auto"});
  v.key("replan", s.replan, "whether all stop for another plan, when peers were lost or have come, if that pays",
        Flag{});
}

inline const Choice& codecs() {
  static const Choice kCodecs{{"none", "bf16", "int8"}};
  return kCodecs;
}

void keys_of(MaybeConst<Pipeline> auto& s, auto& v) {
  v.key("schedule", s.schedule, "order of forward and backward passes", Choice{{"auto", "async", "1f1b", "gpipe"}});
  v.key("stages", s.stages, "layers of the peers in a cluster, e.g. [[0, 3], [3, 6]]", Or<Stages>{"auto"});
  v.key("weights", s.weights, "that an async backward pass uses", Choice{{"stash", "latest", "recompute"}});
  v.key("update_frequency", s.update_frequency, "micro-batches per update in async", Whole{1, 1'000'000});
  v.key("codec", s.codec, "of activations and their gradients on the wire", codecs());
}

void keys_of(MaybeConst<Sync> auto& s, auto& v) {
  const Choice methods{{"auto", "allreduce", "gossip", "local-sgd", "diloco", "palsgd", "none"}};
  const Choice topologies{
      {"auto", "complete", "ring", "one-peer-exp", "alternating-exp-ring", "finite", "bandwidth-aware"}};
  v.key("method", s.method, "how copies of the model stay one", methods);
  v.key("interval", s.interval, "H: steps between rounds of local-sgd, diloco and palsgd",
        Or<Whole>{"auto", Whole{.least = 1}});
  v.key("codec", s.codec, "of what copies exchange on the wire", codecs());
  v.key("topology", s.topology, "who averages with whom in gossip", topologies);
  v.key("mode", s.mode, "gossip mixes while computing or after the update", Choice{{"cwc", "atc"}});
  v.key("consensus", s.consensus, "γ: gossip mixes with γW + (1-γ)I", Real{.high = 1, .with_low = false});
  v.key("outer_lr", s.outer_lr, "learning rate of the outer step of diloco and palsgd", kPositive);
  v.key("outer_momentum", s.outer_momentum, "Nesterov momentum of the outer step", kBelowOne);
  v.key("pull_probability", s.pull_probability, "p: share of palsgd's steps that are pulls", kBelowOne);
  v.key("pull_strength", s.pull_strength, "λ: how strongly palsgd pulls to the last agreed model", kNotNegative);
  v.key("pull_lr", s.pull_lr, "learning rate of a pull with Adam-like optimizers; sgd uses lr", kPositive);
  v.key("pull", s.pull, "when palsgd pulls", Choice{{"random", "every-step"}});
  v.key("warmup_steps", s.warmup_steps, "W: steps of allreduce before diloco and palsgd start", Whole{});
  v.key("fragments", s.fragments, "parts of the model that diloco and palsgd exchange in turn", Whole{1, 1'000'000});
  v.key("delay", s.delay, "τ: steps between sending a fragment and applying the result", Whole{});
  v.key("merge", s.merge, "α: share of the local value that a delayed result leaves", kShare);
  v.key("average_moments", s.average_moments,
        "rounds of local-sgd, diloco and palsgd average the optimizer's state, too", Flag{});
  v.key("group", s.group, "the most copies in one ring; more of them average along the axes of a grid", Whole{2, 1024});
  v.key("robust", s.robust, "averages that peers who send nonsense cannot sway",
        Choice{{"off", "clip", "trimmed-mean"}});
}

void keys_of(MaybeConst<Network> auto& s, auto& v) {
  v.key("bandwidth", s.bandwidth, "of every peer, each way, e.g. \"100mbit\"", Or<Bandwidth>{"unlimited"});
  v.key("latency", s.latency, "one way, e.g. \"20ms\"", Duration{});
  v.key("jitter", s.jitter, "largest random addition to the latency, e.g. \"5ms\"", Duration{});
  v.key("loss", s.loss, "share of packets that are lost", kBelowOne);
}

void keys_of(MaybeConst<Peer> auto& s, auto& v) {
  v.key("speed", s.speed, "share of the computer's speed that the peer gets", kPositive);
  v.key("jitter", s.jitter, "random variation of its step time, as a share", kNotNegative);
  v.key("step_time", s.step_time, "that a step pretends to take at full speed, e.g. \"50ms\"; 0s: as measured",
        Duration{});
  v.key("memory", s.memory, "that its part of the model may take, e.g. \"512MiB\"", Or<Size>{"unlimited"});
  v.key("host", s.host, "computer it pretends to run on; the same name is the same computer", kAnyText);
  v.key("fault", s.fault, "what it does wrong in rounds, to see how others bear it",
        Choice{{"none", "nan", "flip", "scale"}});
}

void keys_of(MaybeConst<Dashboard> auto& s, auto& v) {
  v.key("listen", s.listen,
        "address of the web page that shows the run, e.g. 0.0.0.0:8443 (port 0: any that is free), or off", kListen);
  v.key("certificate", s.certificate, "its certificate, a file in PEM; empty: beyond this computer one is made up",
        kAnyText);
  v.key("key", s.key, "the key of the certificate, a file in PEM", kAnyText);
}

// What is trained, and how: the same for swarms that are real and those that are not.
void keys_of_run(MaybeConst<Settings> auto& s, auto& v) {
  v.key("name", s.name, "the run's directory in runs/", kFileName);
  v.section("model", s.model, "Sizes of 0 come from the preset that kind names, or are the kind's default.");
  v.section("data", s.data, "");
  v.section("train", s.train, "");
  v.section("swarm", s.swarm, "");
  v.section("pipeline", s.pipeline, "How one copy of the model runs on several peers.");
  v.section("sync", s.sync, "How the copies stay one model.");
}

void keys_of(MaybeConst<Settings> auto& s, auto& v) {
  keys_of_run(s, v);
  v.section("network", s.network, "Shapes the links of a local swarm.");
  v.list("peer", s.peers, "One table for each local peer, in order; the others are as fast as they can be.");
  v.section("dashboard", s.dashboard, "");
}

// Of peers.toml.

void keys_of(MaybeConst<DescribedPeer> auto& s, auto& v) {
  v.key("name", s.name, "what plans call it", kAnyText);
  v.key("count", s.count, "so many of them, alike", Whole{1, 100'000});
  v.key("speed", s.speed, "how much faster than this computer", kPositive);
  v.key("jitter", s.jitter, "random variation of its step time, as a share", kNotNegative);
  v.key("step_time", s.step_time, "that a step takes it whatever it holds, e.g. \"50ms\"; 0s: by its speed",
        Duration{});
  v.key("micro_batch_time", s.micro_batch_time,
        "that a micro-batch would take it with the whole model, e.g. \"20ms\"; 0s: by its speed", Duration{});
  v.key("memory", s.memory, "that its part of the model may take, e.g. \"8GiB\"", Or<Size>{"unlimited"});
  v.key("host", s.host, "the same name is the same computer", kAnyText);
  v.key("network", s.network, "how it is connected",
        Choice{{"lan", "home-broadband", "campus", "transatlantic", "datacenter"}});
  v.key("uplink", s.uplink, "that it can send, e.g. \"20mbit\"", Or<Bandwidth>{"auto"});
  v.key("downlink", s.downlink, "that it can receive", Or<Bandwidth>{"auto"});
  v.key("within", s.within, "that peers of one computer send each other", Or<Bandwidth>{"auto"});
  v.key("latency", s.latency, "to the middle of the network, e.g. \"10ms\"", Or<Duration>{"auto"});
}

void keys_of(MaybeConst<DescribedLink> auto& s, auto& v) {
  v.key("from", s.from, "name of a peer", kAnyText);
  v.key("to", s.to, "name of another", kAnyText);
  v.key("bandwidth", s.bandwidth, "e.g. \"100mbit\"; \"0bit\": they cannot reach each other",
        Or<Bandwidth>{"unlimited", {.with_zero = true}});
  v.key("latency", s.latency, "one way, e.g. \"20ms\"", Duration{});
}

void keys_of(MaybeConst<Simulate> auto& s, auto& v) {
  v.key("compute", s.compute, "takes its time only, or does the arithmetic, too", Choice{{"modelled", "real"}});
  v.key("formation", s.formation,
        "how peers make clusters: as plans do, by Ravnest's genetic algorithm, or in equal shares",
        Choice{{"planned", "ravnest", "equal"}});
  v.key("time", s.time, "after which the run ends, e.g. \"1h\"; 0s: when all steps are done", Duration{});
  v.key("until_loss", s.until_loss, "evaluation loss at which it ends before, with real arithmetic; 0: none",
        Real{.low = 0, .high = 1e9});
  v.key("step_time", s.step_time, "of a step on a peer of speed 1, e.g. \"2s\"; 0s: as measured on this computer",
        Duration{});
  v.key("scale", s.scale, "how many values each one that is simulated stands for", Real{.low = 1, .high = 1e6});
  v.key("heartbeat", s.heartbeat, "how often links say something at least",
        Duration{.least = std::chrono::milliseconds(10)});
  v.key("stay", s.stay, "how long a peer stays on average before it is lost, e.g. \"2h\"; 0s: all stay", Duration{});
  v.key("absence", s.absence, "after which another one like it comes in its place; 0s: nobody does", Duration{});
  v.key("chaos", s.chaos, "what is done to peers instead, as with --chaos, e.g. \"kill 0.02/s, freeze 0.01/s\"",
        kAnyText);
}

void keys_of(MaybeConst<Scenario> auto& s, auto& v) {
  keys_of_run(s.settings, v);
  v.section("simulate", s.simulate, "");
  v.list("peer", s.swarm.peers, "One table for each peer, or for several that are alike.");
  v.list("link", s.swarm.links, "Links that are better or worse than the networks of both ends.");
}

void keys_of(MaybeConst<DescribedSwarm> auto& s, auto& v) {
  v.list("peer", s.peers, "One table for each peer, or for several that are alike.");
  v.list("link", s.links, "Links that are better or worse than the networks of both ends.");
}

}  // namespace rookery::config::internal

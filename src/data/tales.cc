#include "data/tales.h"

#include <utility>
#include <vector>

namespace rookery::data {
namespace {

using Choice = Grammar::Choice;

Choice she(std::string name) {
  return {1, {{"name", std::move(name)}, {"he", "she"}, {"He", "She"}, {"his", "her"}, {"him", "her"}}};
}

Choice he(std::string name) {
  return {1, {{"name", std::move(name)}, {"he", "he"}, {"He", "He"}, {"his", "his"}, {"him", "him"}}};
}

// "a silver bell", "bell": {a} is the first mention, {the} every later one.
Choice thing(const std::string& first, const std::string& noun) {
  std::string capital = first;
  capital[0] = 'A';
  return {1, {{"a", first}, {"A", capital}, {"the", "the " + noun}, {"The", "The " + noun}, {"noun", noun}}};
}

Choice place(std::string in, std::string the) { return {1, {{"in", std::move(in)}, {"the", std::move(the)}}}; }

Choice wish(std::string infinitive, std::string past) {
  return {1, {{"do", std::move(infinitive)}, {"did", std::move(past)}}};
}

// What happens is before + the treasure + after.
Choice mishap(double weight, std::string before, std::string after, std::string found) {
  return {weight, {{"before", std::move(before)}, {"after", std::move(after)}, {"found", std::move(found)}}};
}

std::vector<Grammar::Slot> slots() {
  return {
      {"hero",
       {she("Mina"), she("Lily"), she("Anna"), she("Rosa"), she("Poppy"), she("Ella"), he("Tom"), he("Max"),
        he("Oliver"), he("Ben"), he("Felix"), he("Hugo")}},
      {"kind",
       {thing("a little fox", "fox"), thing("a shy mouse", "mouse"), thing("a brown bear", "bear"),
        thing("an orange cat", "cat"), thing("a young otter", "otter"), thing("a tiny hedgehog", "hedgehog"),
        thing("an honest baker", "baker"), thing("a quiet sailor", "sailor")}},
      {"home",
       {place("in a green forest", "the forest"), place("by a blue lake", "the lake"),
        place("on a windy hill", "the hill"), place("in a small village", "the village"),
        place("near an old mill", "the mill"), place("by the sea", "the beach"),
        place("in a sunny valley", "the valley")}},
      {"wish",
       {wish("see the world", "saw the world"), wish("dance with the queen", "danced with the queen"),
        wish("touch a star", "touched a star"), wish("fly like a bird", "flew like a bird"),
        wish("bake the best cake", "baked the best cake"), wish("sail to the moon", "sailed to the moon")}},
      {"treasure",
       {thing("a silver bell", "bell"), thing("a golden key", "key"), thing("an old lamp", "lamp"),
        thing("a red kite", "kite"), thing("an amber ring", "ring"), thing("a wooden flute", "flute"),
        thing("a white feather", "feather"), thing("a round stone", "stone")}},
      {"mishap",
       {mishap(2, "a strong wind blew ", " away", "high in an apple tree"),
        mishap(2, "", " fell into the river", "on the bank of the river"),
        mishap(2, "a greedy magpie stole ", "", "in the nest of the magpie"),
        mishap(1, "", " rolled into a deep hole", "at the bottom of the hole"),
        mishap(1, "a sleepy troll sat down on ", "", "under the sleepy troll")}},
      {"helper",
       {thing("a wise owl", "owl"), thing("an old turtle", "turtle"), thing("a kind giant", "giant"),
        thing("a green frog", "frog"), thing("an eager beaver", "beaver"), thing("a brave sparrow", "sparrow")}},
  };
}

std::vector<Grammar::Sentence> sentences() {
  std::vector<Grammar::Sentence> story = {
      // Who and where.
      {{3, "Once upon a time, there was {kind.a} named {hero.name}, who lived {home.in}."},
       {2, "Once upon a time, {kind.a} named {hero.name} lived {home.in}."},
       {2, "Once there was {kind.a} called {hero.name}. {hero.He} lived {home.in}."},
       {1, "Once, long ago, {kind.a} called {hero.name} lived {home.in}."}},
      // The wish.
      {{2, "More than anything, {hero.name} wanted to {wish.do}."},
       {2, "{hero.name} had one big wish: to {wish.do}."},
       {1, "Every night, {hero.name} dreamed that {hero.he} could {wish.do}."}},
      // The treasure.
      {{2, "One morning, {hero.name} found {treasure.a} near {home.the}."},
       {2, "On {hero.his} birthday, {hero.name} got {treasure.a} from {hero.his} grandmother."},
       {1, "In a dusty box, {hero.name} found {treasure.a}."}},
      {{1, "It was a magic {treasure.noun} that granted wishes."},
       {1, "Everyone knew that {treasure.the} was magic."},
       {1, "\"Keep it safe,\" said the wind, \"for this {treasure.noun} is magic.\""}},
      // The mishap.
      {{3, "But one day, {mishap.before}{treasure.the}{mishap.after}."},
       {2, "But before {hero.name} could make a wish, {mishap.before}{treasure.the}{mishap.after}."},
       {1, "Then, on a cold night, {mishap.before}{treasure.the}{mishap.after}."}},
      {{2, "{hero.name} looked everywhere, but it was gone."},
       {2, "Poor {hero.name} sat down and cried."},
       {1, "{hero.name} was very sad, but {hero.he} did not give up."}},
      // The helper.
      {{2, "\"Why are you sad, {hero.name}?\" asked {helper.a}."},
       {2, "On the road, {hero.he} met {helper.a}."},
       {1, "{helper.A} heard {hero.him} and came to help."}},
      {{2, "\"I have lost my {treasure.noun},\" said {hero.name}. \"I will help you,\" said {helper.the}."},
       {1, "\"Come with me,\" said {helper.the}. \"Four eyes see more than two.\""},
       {1, "\"Do not worry, {hero.name},\" said {helper.the}. \"I know where to look.\""}},
      // The end.
      {{2, "At last they found {treasure.the} {mishap.found}."},
       {1, "And there was {treasure.the}, {mishap.found}!"},
       {1, "{helper.The} found {treasure.the} {mishap.found}."}},
      {{2, "{hero.name} made a wish, and soon {hero.he} {wish.did}."},
       {1, "So the wish came true, and {hero.name} {wish.did}."}},
      {{2, "{hero.name} and {helper.the} were friends from that day on."},
       {2, "{hero.name} thanked {helper.the}, and they lived happily ever after."},
       {1, "And if you pass {home.the}, you can still hear {hero.name} and {helper.the} laugh."}},
  };
  for (std::size_t i = 0; i < story.size(); ++i) {
    for (auto& one : story[i]) one.text += i + 1 < story.size() ? " " : "\n\n";
  }
  return story;
}

}  // namespace

Tales::Tales() : grammar_(slots(), sentences()) {}

std::string Tales::text(std::uint64_t seed, Split split, std::uint64_t index, std::size_t bytes) const {
  Random random({seed, word_of("tales"), static_cast<std::uint64_t>(split), index});
  return grammar_.generate(random, Grammar::Start::kAnySentence, bytes).text;
}

std::string Tales::story(std::uint64_t seed, std::uint64_t index) const {
  Random random({seed, word_of("story"), index});
  std::string text = grammar_.generate(random, Grammar::Start::kStory, 1).text;
  text.resize(text.size() - 2);
  return text;
}

double Tales::information(std::string_view sample, std::size_t given) const {
  return data::information(grammar_, Grammar::Start::kAnySentence, sample, given);
}

}  // namespace rookery::data

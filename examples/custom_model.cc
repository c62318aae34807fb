// A program with all of Rookery's commands, and a model of your own (reader.h) beside the built-in ones:
//
//   build/custom_model train --set model.kind=reader --set data.source=data/mnist
//   build/custom_model train --set model.kind=reader --set data.source=data/mnist --set swarm.peers=4
//   build/custom_model inspect --model reader
#include "cli/cli.h"
#include "reader.h"

int main(int argc, char** argv) {
  reader::register_kind();
  return rookery::cli::run(argc, argv);
}

#pragma once

namespace rookery::cli {

// The whole program: parses the command line, runs the command, and returns the exit code (0 done, 1 the run failed,
// 2 the user's input was wrong, 130 interrupted). A program that registers models of its own calls it from main.
int run(int argc, char** argv);

}  // namespace rookery::cli

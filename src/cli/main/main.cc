#include "cli/cli.h"

int main(int argc, char** argv) { return rookery::cli::run(argc, argv); }

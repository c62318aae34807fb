// mpirun -np PEERS mpi_allreduce BYTES ITERATIONS: seconds of each iteration, the slowest peer's, as a JSON list.
#include <cstdlib>
#include <mpi.h>

#include "collectives_timing.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, peers = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peers);
  if (argc != 3) return 2;
  std::vector<float> values(std::strtoull(argv[1], nullptr, 10) / sizeof(float));
  const int iterations = std::atoi(argv[2]);
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + iterations; ++i) {
    fill(values, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now();
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double mine = now() - start, slowest = 0;
    if (!correct(values, peers)) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= kWarmUp) seconds.push_back(slowest);
  }
  if (rank == 0) print_seconds(seconds);
  MPI_Finalize();
}

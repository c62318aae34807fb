// Precompiled for the commands: the option parser beside what torch_pch.h has.
#include "torch_pch.h"

#include <CLI/CLI.hpp>

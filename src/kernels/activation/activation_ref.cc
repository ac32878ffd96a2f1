#include <cmath>

#include "kernels/activation/activation.h"

namespace aril::kernels {

double SiluMulRef(double gate, double up) { return gate / (1.0 + std::exp(-gate)) * up; }

}  // namespace aril::kernels

// Reading the numbers in the benchmark's flags and traces.

#ifndef ARIL_APPS_BENCH_NUMBERS_H_
#define ARIL_APPS_BENCH_NUMBERS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace aril {

// False unless the whole text is a decimal integer that fits; then `*value` is unchanged.
bool ParseInt(std::string_view text, int64_t* value);
// False unless the whole text is a finite number.
bool ParseNumber(std::string_view text, double* value);

// The pieces between separators: always one more than there are separators.
std::vector<std::string_view> SplitText(std::string_view text, char separator);

// Rounded to the nearest nanosecond. |seconds| must be below 9e9.
Duration ToDuration(double seconds);
double ToSeconds(Duration duration);

// Of at least one value; of an even number, the mean of the two in the middle.
double Median(std::vector<double> values);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_NUMBERS_H_

// Line plots as SVG text: axes from round numbers, a grid, a legend; no libraries, no scripts, no
// fonts but the viewer's.

#ifndef ARIL_APPS_SVG_PLOT_H_
#define ARIL_APPS_SVG_PLOT_H_

#include <string>
#include <vector>

namespace aril {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotLine {
  std::string name;  // in the legend
  std::vector<PlotPoint> points;
};

// Both axes begin at 0: a plot of throughput or latency that does not exaggerates. Values must be
// finite and not negative.
struct LinePlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<PlotLine> lines;
};

// At least 2 values from 0 on, steps of 1, 2 or 5 times a power of ten apart, the last not below
// `max`.
std::vector<double> AxisTicks(double max);

// The plots below each other, those with the same x label on the same x axis, with one legend at
// the right: lines of the same index share a color, and should share a name.
std::string RenderSvg(const std::vector<LinePlot>& plots);

}  // namespace aril

#endif  // ARIL_APPS_SVG_PLOT_H_

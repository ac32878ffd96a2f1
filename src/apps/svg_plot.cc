#include "apps/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>

#include "base/strings.h"

namespace aril {
namespace {

// All in pixels. A panel is a plot with the room for its labels.
constexpr double kPlotWidth = 720;
constexpr double kPlotHeight = 240;
constexpr double kLeft = 76;
constexpr double kTop = 40;
constexpr double kBottom = 52;
constexpr double kPanelHeight = kTop + kPlotHeight + kBottom;
constexpr double kLegendGap = 24;
constexpr double kLegendRow = 20;
constexpr double kSwatch = 22;
constexpr double kCharWidth = 7.2;  // of 12 px sans serif, generously
constexpr double kTargetTicks = 5;

// Okabe and Ito's colors, which people with impaired color vision can tell apart; then dashed.
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#000000"};
constexpr const char* kDashes[] = {"", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\""};

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// A coordinate: a tenth of a pixel is enough.
std::string At(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << value;
  return out.str();
}

std::string Text(double x, double y, const std::string& attributes, const std::string& text) {
  return StrCat("<text x=\"", At(x), "\" y=\"", At(y), "\"", attributes, ">", Escape(text),
                "</text>\n");
}

std::string Rule(double x1, double y1, double x2, double y2, const std::string& style) {
  return StrCat("<line x1=\"", At(x1), "\" y1=\"", At(y1), "\" x2=\"", At(x2), "\" y2=\"", At(y2),
                "\" ", style, "/>\n");
}

std::string StrokeOf(size_t line) {
  const size_t dash = line / std::size(kColors) % std::size(kDashes);
  return StrCat("stroke=\"", kColors[line % std::size(kColors)], "\" stroke-width=\"1.8\"",
                kDashes[dash]);
}

double Largest(const LinePlot& plot, double PlotPoint::*coordinate) {
  double largest = 0;
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& point : line.points) largest = std::max(largest, point.*coordinate);
  }
  return largest;
}

// One plot, whose panel begins at `top`.
class Panel {
 public:
  Panel(const LinePlot& plot, double top, std::vector<double> x_ticks)
      : plot_(plot),
        top_(top + kTop),
        x_ticks_(std::move(x_ticks)),
        y_ticks_(AxisTicks(Largest(plot, &PlotPoint::y))) {}

  std::string Render() const { return Grid() + Axes() + Lines(); }

 private:
  double X(double value) const { return kLeft + value / x_ticks_.back() * kPlotWidth; }
  double Y(double value) const { return top_ + (1 - value / y_ticks_.back()) * kPlotHeight; }

  std::string Grid() const {
    static constexpr char kStyle[] = "stroke=\"#dddddd\"";
    std::string svg;
    for (const double tick : x_ticks_) {
      svg += Rule(X(tick), top_, X(tick), Y(0), kStyle);
      svg += Text(X(tick), Y(0) + 18, " text-anchor=\"middle\"", StrCat(tick));
    }
    for (const double tick : y_ticks_) {
      svg += Rule(kLeft, Y(tick), kLeft + kPlotWidth, Y(tick), kStyle);
      svg += Text(kLeft - 8, Y(tick) + 4, " text-anchor=\"end\"", StrCat(tick));
    }
    return svg;
  }

  std::string Axes() const {
    static constexpr char kStyle[] = "stroke=\"#333333\"";
    const double middle = top_ + kPlotHeight / 2;
    return Rule(kLeft, Y(0), kLeft + kPlotWidth, Y(0), kStyle) +
           Rule(kLeft, top_, kLeft, Y(0), kStyle) +
           Text(kLeft, top_ - 14, " font-weight=\"bold\" font-size=\"14\"", plot_.title) +
           Text(kLeft + kPlotWidth / 2, Y(0) + 38, " text-anchor=\"middle\"", plot_.x_label) +
           Text(18, middle,
                StrCat(" text-anchor=\"middle\" transform=\"rotate(-90 18 ", At(middle), ")\""),
                plot_.y_label);
  }

  std::string PointText(const PlotPoint& point) const {
    return StrCat(At(X(point.x)), ",", At(Y(point.y)), " ");
  }

  std::string Lines() const {
    std::string svg;
    for (size_t i = 0; i < plot_.lines.size(); ++i) {
      svg += StrCat("<polyline fill=\"none\" stroke-linejoin=\"round\" stroke-linecap=\"round\" ",
                    StrokeOf(i), " points=\"");
      const std::vector<PlotPoint>& points = plot_.lines[i].points;
      for (const PlotPoint& point : points) svg += PointText(point);
      // A line to itself is drawn as a dot.
      if (points.size() == 1) svg += PointText(points.front());
      svg += "\"/>\n";
    }
    return svg;
  }

  const LinePlot& plot_;
  const double top_;
  const std::vector<double> x_ticks_;
  const std::vector<double> y_ticks_;
};

std::string Legend(const std::vector<PlotLine>& lines) {
  const double left = kLeft + kPlotWidth + kLegendGap;
  std::string svg;
  for (size_t i = 0; i < lines.size(); ++i) {
    const double y = kTop + 10 + static_cast<double>(i) * kLegendRow;
    svg += Rule(left, y, left + kSwatch, y, StrokeOf(i));
    svg += Text(left + kSwatch + 8, y + 4, "", lines[i].name);
  }
  return svg;
}

double LegendWidth(const std::vector<PlotLine>& lines) {
  size_t longest = 0;
  for (const PlotLine& line : lines) longest = std::max(longest, line.name.size());
  return kLegendGap + kSwatch + 16 + static_cast<double>(longest) * kCharWidth;
}

}  // namespace

std::vector<double> AxisTicks(double max) {
  if (!(max > 0)) return {0, 1};
  const double rough = max / kTargetTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> ticks;
  for (int i = 0; ticks.size() < 2 || ticks.back() < max; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string RenderSvg(const std::vector<LinePlot>& plots) {
  const std::vector<PlotLine> legend = plots.empty() ? std::vector<PlotLine>() : plots[0].lines;
  const double width = kLeft + kPlotWidth + LegendWidth(legend);
  const double height = std::max(kPanelHeight * static_cast<double>(plots.size()),
                                 kTop + kLegendRow * static_cast<double>(legend.size() + 1));
  std::string svg = StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", At(width),
                           "\" height=\"", At(height),
                           "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n"
                           "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
  std::map<std::string, double> largest_x;  // by label
  for (const LinePlot& plot : plots) {
    double& largest = largest_x[plot.x_label];
    largest = std::max(largest, Largest(plot, &PlotPoint::x));
  }
  for (size_t i = 0; i < plots.size(); ++i) {
    svg += Panel(plots[i], static_cast<double>(i) * kPanelHeight,
                 AxisTicks(largest_x.at(plots[i].x_label)))
               .Render();
  }
  return svg + Legend(legend) + "</svg>\n";
}

}  // namespace aril

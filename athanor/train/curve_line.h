// Lines of charts: a value for each step.
#pragma once
#include <string>
#include <vector>

namespace athanor {

struct CurvePoint {
  double step, value;
};
using CurveLine = std::vector<CurvePoint>;

/// The mean over about a thirtieth of the run around each step. Windows are symmetric at the start of the
/// curve, so that its steep part stays in place; at the end they look back.
CurveLine running_mean(const CurveLine& line);

/// The minimum and maximum of each of a few hundred sections: looks like the whole line.
CurveLine thinned(const CurveLine& line);

/// The value below which this share of values lies; 0 for none.
double quantile(const CurveLine& line, double share);

/// "1,400"
std::string with_commas(double number);

}  // namespace athanor

// The style sheet of reports.
#pragma once
#include <string_view>

namespace athanor {

inline constexpr std::string_view report_style = R"(
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5d6b7a; --page: #f4f6f9; --card: #ffffff; --line: #dfe5ec; --blue: #2f6fde; --orange: #e0681c; --red: #c03a2b }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf3; --soft: #93a1b0; --page: #0b0f14; --card: #11161d; --line: #2a3441; --blue: #6ea3ff; --orange: #ff9a52; --red: #ff7b6b } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif }
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 60px }
h1 { font-size: 27px; line-height: 1.25; margin: 0 0 2px } h2 { font-size: 19px; margin: 36px 0 12px }
p { margin: 4px 0 } .soft { color: var(--soft) } .error { color: var(--red) } code { font-size: .93em; overflow-wrap: anywhere }
.state { display: inline-block; padding: 1px 10px; border-radius: 11px; font-size: 13px; border: 1px solid var(--line); margin-left: 6px; vertical-align: 4px }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(148px, 1fr)); gap: 10px; margin-top: 20px }
.figures div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px }
.figures b { display: block; font-size: 20px; font-weight: 600 } .figures span { color: var(--soft); font-size: 13px }
.picture { background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow-x: auto; padding: 4px }
.picture img { display: block; min-width: 600px; max-width: min(100%, 920px); margin: 0 auto }
@media (max-width: 640px) { .picture::before { content: "\2190  swipe sideways \2192"; position: sticky; left: 0; display: block; padding: 6px 10px; font-size: 13px; color: var(--soft) } }
.examples { display: grid; grid-template-columns: repeat(auto-fill, minmax(120px, 1fr)); gap: 10px }
.examples figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px; font-size: 13px; line-height: 1.35 }
.examples img { display: block; width: 100%; aspect-ratio: 1; object-fit: contain; image-rendering: pixelated; margin-bottom: 8px }
.masks img { display: block; width: 192px; max-width: 100%; image-rendering: pixelated }
.examples b { color: var(--orange) } .examples .right b { color: var(--blue) }
.table { overflow-x: auto } table { border-collapse: collapse; font-size: 13.5px; min-width: 100% }
th { text-align: left; color: var(--soft); font-weight: 600 } td, th { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; margin: 4px 0 14px }
details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px; margin-top: 10px } summary { cursor: pointer; font-weight: 600 }
)";

}  // namespace athanor

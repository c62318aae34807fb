#pragma once

#include <string_view>

namespace rookery::observe::internal {

// How a report looks. Grounds and texts are those of the pictures (plot.h), as are the colours of the bars. On a narrow
// screen pictures are shrunk, and their texts are enlarged in return, by no more than their places allow.
constexpr std::string_view kReportStyle = R"(
:root{color-scheme:light dark;--page:#f6f8fa;--ground:#fff;--text:#1f2328;--quiet:#59636e;--line:#dfe4ea;
--shade:#1f232833;--accent:#541ea0;--compute:#29616b;--waiting:#d24100;--other:#aab3bd}
@media (prefers-color-scheme:dark){:root{--page:#010409;--ground:#0d1117;--text:#e6edf3;--quiet:#9198a1;--line:#2b3138;
--shade:#000c;--accent:#a48cf7;--compute:#8ad9e7;--waiting:#d75f39;--other:#565e67}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1240px;margin:0 auto;padding:0 24px}
header{padding-top:40px}
h1{margin:0;font-size:30px;line-height:1.2;font-weight:650;letter-spacing:-.01em}
h2{margin:0 0 16px;font-size:20px;line-height:1.3;font-weight:600}
p,ul{margin:0 0 16px}
section ul{padding:0;list-style:none}
a{color:var(--accent);text-underline-offset:3px}
code{font:.875em/1.4 ui-monospace,monospace}
nav ul{display:flex;flex-wrap:wrap;gap:4px 20px;margin:20px 0 0;padding:0;list-style:none;font-size:14px}
nav a{text-decoration:none}
nav a:hover,nav a:focus-visible{text-decoration:underline}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
section{margin:40px 0}
.runs{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:12px;margin:20px 0 0;
padding:0;list-style:none}
.runs li,.wide,figure{background:var(--ground);border:1px solid var(--line);border-radius:8px}
.runs li{padding:12px 16px;font-size:14px;line-height:1.45}
.runs b{display:block;font-size:16px}
.runs span{display:block;color:var(--quiet)}
.dot{display:inline-block;overflow:visible;width:.7em;height:.7em;margin-right:.4em;vertical-align:baseline}
.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:16px}
figure{margin:0;padding:4px 4px 0;overflow:hidden;break-inside:avoid}
figure>svg{display:block;width:100%;height:auto}
figcaption{padding:0 16px 12px;color:var(--quiet);font-size:13px}
figcaption::first-letter{text-transform:uppercase}
.wide{overflow-x:auto;margin:0 0 16px;background:linear-gradient(to left,var(--ground) 30%,transparent) 100% 0/40px 100%
no-repeat local,linear-gradient(to left,var(--shade),transparent) 100% 0/12px 100% no-repeat scroll,var(--ground)}
.wide:has(thead th:nth-child(2):last-child){max-width:640px}
table{width:100%;border-collapse:collapse;font-size:14px;line-height:1.4}
caption{padding:12px 16px 8px;color:var(--quiet);text-align:left;font-size:13px}
caption span{display:block;max-width:calc(100vw - 60px)}
th,td{padding:7px 12px;border-top:1px solid var(--line);text-align:right;vertical-align:baseline;
font-variant-numeric:tabular-nums;overflow-wrap:normal}
thead th{border-top:0;border-bottom:1px solid var(--line);font-weight:600;white-space:nowrap}
tbody th{font-weight:500;min-width:10em;overflow-wrap:anywhere}
th:first-child,.text{text-align:left}
th:first-child{padding-left:16px}td:last-child,th:last-child{padding-right:16px}
th:first-child{position:sticky;left:0;background:var(--ground)}
td:not(.text){white-space:nowrap}
td .list{white-space:normal}
tbody tr:first-child>*{border-top:0}
td.text{overflow-wrap:anywhere;min-width:7em}
tbody th code{display:block;color:var(--quiet);font-size:12px}
.exact{display:block;color:var(--quiet);font-size:12px}
.nothing{color:var(--quiet)}
.bar{display:block;width:100%;min-width:120px;height:12px;border-radius:3px}
rect.compute{fill:var(--compute)}rect.waiting{fill:var(--waiting)}rect.other{fill:var(--other)}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;color:var(--quiet);font-size:14px}
.legend span::before{content:"";display:inline-block;width:12px;height:12px;margin-right:7px;border-radius:3px;
vertical-align:-1px}
.legend .compute::before{background:var(--compute)}.legend .waiting::before{background:var(--waiting)}
.legend .other::before{background:var(--other)}
details{margin:16px 0}
summary{cursor:pointer;color:var(--accent);font-size:14px;margin-bottom:12px}
footer{padding-bottom:40px;color:var(--quiet);font-size:13px}
@media (max-width:560px){header,main,footer{padding-left:12px;padding-right:12px}header{padding-top:24px}
section{margin:32px 0}th:is(*,:first-child,:last-child),td:is(*,:last-child){padding:7px 8px}caption{padding-left:8px;padding-right:8px}.exact,
tbody th code{font-size:11px}tbody th{min-width:8em}
figure{padding:0}figure .title{font-size:18px}figure .subtitle,figure .label{font-size:14px}
figure .tick,figure .note{font-size:13px}figure .name{font-size:13.5px}}
@media print{body{background:none;font-size:12px}header,main,footer{max-width:none;padding:0}nav{display:none}
section{margin:24px 0}.wide{overflow:visible}tr{break-inside:avoid}table{font-size:11px}
th:is(*,:first-child,:last-child),td:is(*,:last-child){padding:4px 6px}
.exact,tbody th code{font-size:9px}.exact{overflow-wrap:anywhere}td:not(.text){white-space:normal}.bar{min-width:60px}
tbody th{min-width:6em}h2{break-after:avoid}caption{padding:6px}figcaption{padding:0 12px 8px}
caption,figcaption{font-size:10px}details:not([open]){display:none}
.curves{grid-template-columns:1fr 1fr}.bar,.legend span::before{print-color-adjust:exact;
-webkit-print-color-adjust:exact}}
)";

}  // namespace rookery::observe::internal

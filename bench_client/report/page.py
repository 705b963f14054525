"""The HTML page around a report: one style sheet, and a policy that forbids everything outside."""

from bench_client.report.charts import COLOURS

STYLE = """
:root {
  color-scheme: light dark;
  --ink: light-dark(#1d2329, #e3e7ea); --dim: light-dark(#5b6670, #98a2ab);
  --paper: light-dark(#ffffff, #14181c); --line: light-dark(#dce1e5, #2c343b);
  --good: light-dark(#1a7f37, #56d364); --warn: light-dark(#8a5a00, #e3b341);
  --bad: light-dark(#b3261e, #ff7b72);
  --c0: light-dark(#57606a, #a5aeb7); --c1: light-dark(#0072b2, #58b0e6);
  --c2: light-dark(#b8560a, #f0954a); --c3: light-dark(#00805b, #3cc79b);
  --c4: light-dark(#a0478a, #dc8cc4); --c5: light-dark(#7a6a00, #d6c24a);
}
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; font-weight: 600; }
h2 { font-size: 1.15rem; margin: 3rem 0 1rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; margin: 1rem 0 1.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem; }
th, td { padding: .25rem 0 .25rem 1.5rem; text-align: right; vertical-align: top;
  white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th { color: var(--dim); font-weight: 500; vertical-align: bottom;
  border-bottom: 1px solid var(--line); }
.words { text-align: left; }
small { font-weight: 400; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .15rem 1rem; margin: .5rem 0 1rem; }
dt, .dim, footer { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); font-size: .8125rem; }
code { color: var(--dim); }
summary { cursor: pointer; color: var(--dim); }
.verdict { font-size: .875rem; font-weight: 600; }
.valid { color: var(--good); }
.doubtful { color: var(--warn); }
.invalid, .bad { color: var(--bad); }
p.invalid { font-weight: 600; }
figure { margin: 2rem 0; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; max-width: 45rem; height: auto; margin-top: .5rem; }
svg text { fill: var(--dim); font-size: 12px; font-variant-numeric: tabular-nums; }
svg path { fill: none; stroke-width: 2; }
svg path.axis { stroke: var(--line); stroke-width: 1; }
svg path.guide { stroke: var(--dim); stroke-width: 1; }
svg path.dashed { stroke-dasharray: 4 4; }
svg circle { fill-opacity: .7; }
""" + "\n".join(
    f".c{i} {{ fill: var(--c{i}); }} svg path.l{i} {{ stroke: var(--c{i}); }}"
    for i in range(COLOURS)
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, body: str) -> str:
    """A whole HTML document; both arguments are HTML already."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}
</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""

"""The style of the audit page: light, dark, and ink on paper."""

LIGHT = """
--page:#f6f7f9;--card:#fff;--line:#dfe3e8;--ink:#1b1f26;--soft:#5b6472;--faint:#8b94a3;
--c0:#98a1ae;--c1:#1f5fae;--c2:#c2570c;--c3:#1d8a6b;--bad:#b3261e;--good:#19733f;--code:#eef1f5;
"""
DARK = """
--page:#14171c;--card:#1c2027;--line:#323944;--ink:#e7eaef;--soft:#a2acba;--faint:#76808f;
--c0:#7f8998;--c1:#6aa9f5;--c2:#f0a05a;--c3:#4cc79f;--bad:#ff8a80;--good:#6fcf97;--code:#262c35;
"""
PAPER = LIGHT.replace("--page:#f6f7f9", "--page:#fff")

STYLE = f"""
:root{{color-scheme:light dark;{LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--page);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}}
main{{max-width:1120px;margin:0 auto;padding:28px 20px 60px}}
header{{border-bottom:1px solid var(--line);padding-bottom:18px;margin-bottom:22px}}
h1{{font-size:25px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}}
h2{{font-size:18px;margin:0 0 6px}}
h3{{font-size:14px;margin:0 0 4px;font-weight:600}}
p{{margin:0 0 10px;max-width:74ch}}
.soft,figcaption{{color:var(--soft)}}
.verdict{{display:inline-block;margin:12px 0 2px;padding:7px 14px;border-radius:8px;font-weight:600;
border:1px solid currentColor;background:var(--card)}}
.good{{color:var(--good)}}.bad{{color:var(--bad)}}.none{{color:var(--soft)}}
section{{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;
margin:0 0 18px}}
.tiles{{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:0 0 18px}}
.tile{{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}}
.tile b{{display:block;font-size:22px;line-height:1.2;font-variant-numeric:tabular-nums}}
.tile span{{color:var(--soft);font-size:13px}}
.row{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(290px,100%),1fr));gap:18px;align-items:start;
margin-bottom:16px}}
.pair{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(340px,100%),1fr));gap:18px}}
figure{{margin:0;min-width:0}}
figure img{{display:block;width:100%;height:auto;image-rendering:pixelated;border-radius:4px;
border:1px solid var(--line)}}
figcaption{{font-size:13px;margin-top:6px}}
.chart{{width:100%;height:auto;display:block}}
.chart text{{fill:var(--soft);font:11px system-ui,"DejaVu Sans",sans-serif}}
.mid{{text-anchor:middle}}.end{{text-anchor:end}}
.grid{{stroke:var(--line);stroke-width:1}}.axis{{stroke:var(--faint);stroke-width:1}}
.line{{fill:none;stroke-width:1.6;stroke-linejoin:round}}
.c0{{stroke:var(--c0)}}.c1{{stroke:var(--c1)}}.c2{{stroke:var(--c2)}}.c3{{stroke:var(--c3)}}
.thin{{stroke-width:.9;opacity:.55}}
.limit{{stroke:var(--bad);stroke-dasharray:4 3;stroke-width:1.2}}
.mark{{fill:var(--bad)}}
.legend{{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--soft);margin:2px 0 0 50px}}
.key svg{{width:18px;height:8px;margin-right:6px;vertical-align:middle}}
.swatch{{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}}
table{{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}}
th,td{{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}}
th{{color:var(--soft);font-weight:600}}td.n,th.n{{text-align:right;white-space:nowrap}}
.many tr>:first-child{{white-space:nowrap;padding-right:18px}}
.wide{{overflow-x:auto}}
td.hash,code,pre{{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:12.5px}}
td{{overflow-wrap:anywhere}}
pre{{background:var(--code);border-radius:6px;padding:10px 12px;white-space:pre-wrap;
overflow-wrap:anywhere;margin:0 0 14px}}
ul{{margin:0 0 8px;padding-left:20px}}
footer{{color:var(--soft);font-size:13px}}
@page{{margin:14mm}}
@media print{{:root{{color-scheme:light;{PAPER}}}
body{{font-size:11.5px;-webkit-print-color-adjust:exact;print-color-adjust:exact}}
main{{max-width:none;padding:0}}section{{border:0;padding:0 0 10px;border-radius:0}}
figure,tr,.tiles,h2,h3,pre{{break-inside:avoid}}h2,h3{{break-after:avoid}}
.row{{grid-template-columns:repeat(3,1fr)}}.pair{{grid-template-columns:repeat(2,1fr)}}
.tiles{{grid-template-columns:repeat(5,1fr)}}.tile b{{font-size:17px}}}}
"""

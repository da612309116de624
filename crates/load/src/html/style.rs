/// Colours that people with any colour vision tell apart, one set for each background; dashes tell the lines apart too.
pub(super) const CSS: &str = "\
:root{--back:#fff;--text:#1a1a1a;--soft:#5c5c5c;--grid:#dcdcdc;--box:#f4f4f4;--good:#00603f;--bad:#a03a00;
--l0:#0072b2;--l1:#d55e00;--l2:#007a59;--l3:#a64d79;--l4:#8a6100;--l5:#1a1a1a}
@media (prefers-color-scheme:dark){:root{--back:#14161a;--text:#e8e8e8;--soft:#a8a8a8;--grid:#34383f;--box:#1e2127;
--good:#5fd3a8;--bad:#ff9d5c;--l0:#56b4e9;--l1:#ff8a3d;--l2:#2fc99a;--l3:#e79cc2;--l4:#f0c040;--l5:#f0f0f0}}
body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:920px;margin:0 auto;padding:24px 16px}
h1{font-size:22px;margin:0 0 12px}h2{font-size:16px;margin:28px 0 4px}small{color:var(--soft)}
pre{background:var(--box);padding:12px;overflow-x:auto;font-size:13px;line-height:1.4}
.verdict{border-left:4px solid;padding:4px 12px}.good{color:var(--good)}.bad{color:var(--bad)}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.grid{stroke:var(--grid)}.mark{stroke:var(--text);stroke-dasharray:2 3}svg text.on{fill:var(--text);font-weight:600}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.hit{fill:transparent}.hit:hover{fill:var(--text);opacity:.08}
.c0{stroke:var(--l0)}.c1{stroke:var(--l1);stroke-dasharray:7 3}.c2{stroke:var(--l2);stroke-dasharray:2 3}
.c3{stroke:var(--l3);stroke-dasharray:9 3 2 3}.c4{stroke:var(--l4);stroke-dasharray:12 4}.c5{stroke:var(--l5);stroke-dasharray:1 2}
svg text.t0{fill:var(--l0)}svg text.t1{fill:var(--l1)}svg text.t2{fill:var(--l2)}
svg text.t3{fill:var(--l3)}svg text.t4{fill:var(--l4)}svg text.t5{fill:var(--l5)}
details{margin:4px 0}summary{cursor:pointer;color:var(--soft)}
table{border-collapse:collapse;font-size:13px}td,th{padding:1px 10px;text-align:right;border-bottom:1px solid var(--grid)}
";

/// How many sorts of lines there are; further ones begin anew.
pub(super) const SORTS: usize = 6;

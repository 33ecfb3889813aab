// Traffic between nodes: nodes on a ring, an arc from where bytes lie to where they are touched, wider where there is
// more. Four nodes and thirty-two are read in the same way.

import { by, h, list, s, say, set, variable } from "./dom.js";
import { hue } from "./machine.js";
import { rate } from "./words.js";

const ARCS = 160;

function point(place, of, radius) {
  const angle = (2 * Math.PI * place) / of - Math.PI / 2;
  return [200 + radius * Math.cos(angle), 200 + radius * Math.sin(angle)];
}

const fixed = (pair) => pair.map((x) => x.toFixed(1)).join(" ");

/** Shows the ring. */
export function links(model, chosen) {
  const parent = by("links");
  const { nodes } = model;
  if (nodes.length < 2) {
    parent.hidden = true;
    return;
  }
  parent.hidden = false;
  if (!parent.parts) {
    const arcs = s("g", { class: "arcs" });
    const dots = s("g", { class: "dots" });
    const words = h("figcaption");
    parent.append(
      s("svg", { viewBox: "0 0 400 400", role: "img", "aria-labelledby": "links-words" }, arcs, dots),
      words,
    );
    words.id = "links-words";
    parent.parts = { arcs, dots, words };
  }
  const { arcs, dots, words } = parent.parts;
  const at = new Map(nodes.map((n, place) => [n.node, place]));
  const crossing = model.traffic.filter((t) => t.from !== t.to && t.rate > 0 && at.has(t.from) && at.has(t.to));
  const meant = crossing.filter((t) => chosen === null || t.from === chosen || t.to === chosen);
  meant.sort((a, b) => b.rate - a.rate);
  const most = Math.max(1, meant[0]?.rate ?? 0);
  const far = nodes.length > 12 ? 176 : 160;
  list(
    arcs,
    meant.slice(0, ARCS),
    (t) => `${t.from}>${t.to}`,
    () => s("path", {}, s("title")),
    (element, t) => {
      const [a, b] = [point(at.get(t.from), nodes.length, far - 14), point(at.get(t.to), nodes.length, far - 14)];
      // Both directions bend to their own side.
      const [mx, my] = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
      const pull = [mx + (200 - mx) * 0.55 + (b[1] - a[1]) * 0.06, my + (200 - my) * 0.55 - (b[0] - a[0]) * 0.06];
      set(element, "d", `M ${fixed(a)} Q ${fixed(pull)} ${fixed(b)}`);
      set(element, "stroke-width", (0.6 + (nodes.length > 12 ? 5 : 9) * (t.rate / most)).toFixed(2));
      variable(element, "--hue", hue(t.from, nodes));
      variable(element, "--strength", (0.25 + 0.6 * (t.rate / most)).toFixed(2));
      const link = model.hops.get(`${t.from}>${t.to}`);
      const way = link?.hops ? `, ${link.hops}` : "";
      say(element.firstChild, `from node ${t.from} to node ${t.to}${way}: ${rate(t.rate)}`);
    },
  );
  const top = Math.max(1, ...nodes.map((n) => n.served));
  list(
    dots,
    nodes,
    (n) => n.node,
    () => s("g", {}, s("circle"), s("text", { "text-anchor": "middle", "dominant-baseline": "central" })),
    (element, n) => {
      const [circle, text] = element.children;
      const [x, y] = point(at.get(n.node), nodes.length, far);
      const size = nodes.length > 12 ? 5 + 7 * Math.sqrt(n.served / top) : 12 + 10 * Math.sqrt(n.served / top);
      set(circle, "cx", x.toFixed(1));
      set(circle, "cy", y.toFixed(1));
      set(circle, "r", size.toFixed(1));
      variable(element, "--hue", hue(n.node, nodes));
      const [tx, ty] = nodes.length > 12 ? point(at.get(n.node), nodes.length, far + 18) : [x, y];
      set(text, "x", tx.toFixed(1));
      set(text, "y", ty.toFixed(1));
      say(text, String(n.node));
      set(element, "class", chosen === n.node ? "chosen" : null);
    },
  );
  const all = meant.reduce((sum, t) => sum + t.rate, 0);
  const of = chosen === null ? "between nodes" : `to and from node ${chosen}`;
  const [first] = meant;
  say(
    words,
    first
      ? `${rate(all)} ${of}; most from node ${first.from} to node ${first.to}, ${rate(first.rate)}`
      : `Nothing crosses ${of} now`,
  );
}

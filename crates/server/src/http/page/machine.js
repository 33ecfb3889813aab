// The nodes as they lie: a tile each, those of a package together.

import { by, h, list, s, say, set, variable } from "./dom.js";
import { bytes, count, percent, rate } from "./words.js";

/** A node's colour, the same wherever it is shown: neighbours are neighbours on the wheel. */
export function hue(node, nodes) {
  const place = nodes.findIndex((n) => n.node === node);
  return Math.round((200 + (360 * Math.max(place, 0)) / Math.max(nodes.length, 3)) % 360);
}

function tile(n) {
  const line = s("polyline", { class: "line" });
  const area = s("polygon", { class: "area" });
  const parts = {
    name: h("strong"),
    cpus: h("span", { class: "quiet" }),
    rate: h("span", { class: "rate" }),
    about: h("span", { class: "about quiet" }),
    memory: h("span", { class: "quiet memory-words" }),
    near: h("span", { class: "near" }),
    far: h("span", { class: "far" }),
    stored: h("span", { class: "stored" }),
  };
  const element = h(
    "article",
    { class: "node", tabindex: 0 },
    h("header", {}, parts.name, parts.cpus),
    s("svg", { class: "spark", viewBox: "0 0 60 20", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line),
    h("p", { class: "now" }, parts.rate, parts.about),
    h("div", { class: "meter reach", role: "img" }, parts.near, parts.far),
    h("div", { class: "meter memory", role: "img" }, parts.stored),
    parts.memory,
  );
  element.parts = { ...parts, line, area };
  element.dataset.node = n.node;
  return element;
}

function drawn(element, n, most, nodes, chosen) {
  const { name, cpus, rate: now, about, memory, near, far, stored, line, area } = element.parts;
  const all = n.local + n.remote;
  const moved = Math.max(n.served, all);
  variable(element, "--hue", hue(n.node, nodes));
  variable(element, "--heat", (most > 0 ? moved / most : 0).toFixed(3));
  say(name, `Node ${n.node}`);
  say(cpus, n.cpus ? `${n.cpus} cpus${n.busy === null ? "" : `, ${percent(n.busy)} busy`}` : "memory alone");
  say(now, rate(moved));
  const passed = n.read === null ? "" : `memory: ${rate(n.read)} read, ${rate(n.written)} written`;
  const besides = n.most ? `of ${rate(n.most)}` : all > 0 ? `${percent(n.remote / all)} remote` : "";
  say(about, [besides, passed].filter(Boolean).join("; "));
  variable(near, "--share", all > 0 ? (n.local / Math.max(most, 1)).toFixed(3) : 0);
  variable(far, "--share", all > 0 ? (n.remote / Math.max(most, 1)).toFixed(3) : 0);
  variable(stored, "--share", n.memory > 0 ? Math.min(1, n.stored / n.memory).toFixed(4) : 0);
  const full = n.memory > 0 ? n.stored / n.memory : 0;
  say(memory, nodes.length > 12 ? `${bytes(n.stored)}, ${percent(full)}` : `${bytes(n.stored)} of ${bytes(n.memory)}`);
  const held = n.held.filter((m) => m.bytes > 0).map((m) => `${m.kind} ${bytes(m.bytes)}`);
  const controllers =
    n.read === null ? "not counted on this machine" : `${rate(n.read)} read, ${rate(n.written)} written`;
  const told = [
    `Node ${n.node}${n.package === undefined || n.package === null ? "" : `, package ${n.package}`}`,
    `its cpus touch ${rate(n.local)} here and ${rate(n.remote)} elsewhere`,
    `its memory serves ${rate(n.served)}, ${rate(n.away)} of that to other nodes`,
    `memory controllers: ${controllers}`,
    `${count(n.queued)} entries queued`,
    `tables hold ${bytes(n.stored)} of ${bytes(n.memory)}`,
    ...(held.length ? [`held: ${held.join(", ")}`] : []),
  ].join("\n");
  set(element, "title", told);
  set(element, "aria-label", told);
  set(element, "aria-current", chosen === n.node ? "true" : null);
  const top = Math.max(most, 1);
  const points = n.history.map(
    (v, i) => `${60 - n.history.length + i + 0.5},${(19 - 18 * Math.min(1, v / top)).toFixed(2)}`,
  );
  set(line, "points", points.join(" "));
  const from = 60 - n.history.length + 0.5;
  set(area, "points", points.length > 1 ? `${from},20 ${points.join(" ")} 59.5,20` : "");
}

/** Shows the nodes; `choose` is told which one is meant. */
export function nodes(model, chosen, choose) {
  const parent = by("nodes");
  const all = model.nodes;
  const most = Math.max(1, ...all.map((n) => n.most || 0), ...all.flatMap((n) => n.history));
  parent.dataset.size = all.length === 1 ? "one" : all.length <= 4 ? "few" : all.length <= 12 ? "some" : "many";
  if (!parent.hears) {
    parent.hears = true;
    const pick = (event) => {
      const of = event.target.closest(".node");
      if (of) choose(Number(of.dataset.node));
    };
    parent.addEventListener("click", pick);
    parent.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        pick(event);
      }
    });
  }
  const packages = new Map();
  for (const n of all) {
    const key = n.package ?? `of node ${n.node}`;
    packages.set(key, [...(packages.get(key) ?? []), n]);
  }
  const together = [...packages.values()].some((of) => of.length > 1) && packages.size > 1;
  const groups = together ? [...packages] : [["all", all]];
  list(
    parent,
    groups,
    ([key]) => `${together} ${key}`,
    ([key]) => {
      const inner = h("div", { class: "tiles" });
      const element = h(
        "div",
        { class: together ? "package together" : "package" },
        together ? h("h3", {}, `Package ${key}`) : null,
        inner,
      );
      element.inner = inner;
      return element;
    },
    (element, [, of]) =>
      list(
        element.inner,
        of,
        (n) => n.node,
        tile,
        (e, n) => drawn(e, n, most, all, chosen),
      ),
  );
}

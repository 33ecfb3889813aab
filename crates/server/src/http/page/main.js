// The page: asks for states, shows them, listens to keys.

import { by, h, say } from "./dom.js";
import * as lists from "./lists.js";
import { links } from "./links.js";
import { nodes } from "./machine.js";
import * as source from "./source.js";
import { Follower } from "./state.js";
import * as tables from "./tables.js";
import { time } from "./words.js";

const SECTIONS = ["machine", "tables", "statements", "placement", "workers", "units", "transactions", "log"];

const follower = new Follower();
let run = { live: true };
let model = null;
let chosen = null;
let isPaused = false;
let place = 0;

function show() {
  if (!model) return;
  lists.figures(model);
  nodes(model, chosen, choose);
  links(model, chosen);
  tables.tables(model, chosen, run.live);
  lists.statements(model, run.live);
  by("statements").hidden = model.state.statements === undefined;
  lists.placements(model, run.live);
  lists.workers(model);
  lists.units(model);
  lists.transactions(model);
  lists.log(model);
  contents();
}

function choose(node) {
  chosen = chosen === node ? null : node;
  show();
}

function contents() {
  const nav = by("contents");
  const shown = SECTIONS.filter((id) => !by(id).hidden);
  if (nav.shown === shown.join()) return;
  nav.shown = shown.join();
  nav.replaceChildren(...shown.map((id) => h("a", { href: `#${id}` }, by(id).querySelector("h2").textContent)));
}

function trouble(text) {
  by("trouble").hidden = !text;
  say(by("trouble"), text ?? "");
  document.body.classList.toggle("stale", Boolean(text));
}

/** The next state of the server. */
async function look() {
  if (!isPaused && !document.hidden) {
    try {
      const state = await source.state();
      if (follower.last && state.seconds < follower.last.seconds) follower.forget();
      if (state.seconds !== follower.last?.seconds) {
        model = follower.model(state);
        show();
      }
      trouble(null);
    } catch (error) {
      trouble(`The server cannot be asked: ${error.message}`);
    }
  }
  setTimeout(look, 1000);
}

/** Shows a recorded run at a place. */
async function go(to) {
  const before = place;
  place = Math.max(0, Math.min(run.seconds.length - 1, to));
  by("place").value = place;
  say(by("clock"), `${time(run.seconds[place])} of ${time(run.seconds.at(-1))}`);
  try {
    if (!follower.links.length) follower.model(await source.state(0));
    if (place !== before + 1) {
      // Rates are differences to the state before.
      follower.forget();
      if (place > 0) follower.model(await source.state(place - 1));
    }
    model = follower.model(await source.state(place));
    show();
    trouble(null);
  } catch (error) {
    trouble(`The run cannot be read: ${error.message}`);
    pause(true);
  }
}

function pause(to) {
  isPaused = to;
  const button = by("play");
  say(button, to ? "Play" : "Pause");
  button.setAttribute("aria-pressed", String(!to));
  if (run.live) say(by("title"), to ? "paused" : "live");
}

async function tick() {
  if (!isPaused) {
    if (place >= run.seconds.length - 1) pause(true);
    else await go(place + 1);
  }
  setTimeout(tick, 1000 / Number(by("speed").value));
}

function keys(event) {
  if (event.target.matches("input[type=search], input[type=text], select") || by("ask").open) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    by("filter").focus();
  } else if (event.key === "p") {
    pause(!isPaused);
  } else if (!run.live && (event.key === "ArrowRight" || event.key === "ArrowLeft") && event.target.id !== "place") {
    pause(true);
    go(place + (event.key === "ArrowRight" ? 1 : -1));
  } else if (/^[1-8]$/.test(event.key)) {
    const section = by(SECTIONS[Number(event.key) - 1]);
    section.scrollIntoView();
    section.focus({ preventScroll: true });
  }
}

async function begin() {
  document.addEventListener("keydown", keys);
  tables.listen(show);
  try {
    run = await source.run();
  } catch (error) {
    trouble(`The server cannot be asked: ${error.message}`);
    setTimeout(() => location.reload(), 5000);
    return;
  }
  if (run.live) {
    pause(false);
    look();
    return;
  }
  say(by("title"), run.title ?? "a recorded run");
  by("player").hidden = false;
  by("place").max = run.seconds.length - 1;
  by("place").addEventListener("input", (event) => go(Number(event.target.value)));
  by("play").addEventListener("click", () => {
    if (isPaused && place >= run.seconds.length - 1) go(0);
    pause(!isPaused);
  });
  pause(false);
  await go(Math.min(1, run.seconds.length - 1));
  tick();
}

begin();

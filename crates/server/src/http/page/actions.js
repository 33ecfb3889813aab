// What a user does: cancel a statement, place a column, undo a placement. Each is said in SQL before it is run.

import { by, h, say } from "./dom.js";
import { post } from "./source.js";
import { called } from "./state.js";

/** A name as SQL has it. */
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

/** A text as SQL has it. */
export const literal = (text) => `'${text.replaceAll("'", "''")}'`;

let gone;

/** Says what came of something, for a while. */
export function told(text, isWrong = false) {
  const said = by("said");
  say(said, text);
  said.className = isWrong ? "said shown wrong" : "said shown";
  clearTimeout(gone);
  gone = setTimeout(() => (said.className = "said"), isWrong ? 12000 : 5000);
}

/** Cancels a statement. */
export async function cancel(statement) {
  try {
    const { cancelled } = await post("/api/cancel", { statement });
    told(cancelled ? "The statement is cancelled." : "The statement was over already.");
  } catch (error) {
    told(error.message, true);
  }
}

async function run(sql) {
  try {
    const answer = await post("/query", { sql });
    told(answer.command ?? "Done.");
    return true;
  } catch (error) {
    told(error.message, true);
    return false;
  }
}

/** Asks whether a statement is to be run, and runs it. */
function ask(title, words, sqlOf, fields) {
  const dialog = by("ask");
  const shown = h("pre", { class: "sql" });
  const go = h("button", { type: "submit", class: "go" }, "Run");
  const show = () => say(shown, sqlOf());
  const form = h(
    "form",
    { method: "dialog", oninput: show, onchange: show },
    h("h2", { id: "ask-title" }, title),
    h("p", { class: "quiet" }, words),
    ...fields,
    shown,
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Leave it"),
      go,
    ),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    say(go, "Running");
    if (await run(sqlOf())) dialog.close();
    go.disabled = false;
    say(go, "Run");
  });
  dialog.replaceChildren(form);
  show();
  dialog.showModal();
}

/** Asks where a column, or its table, is to lie. */
export function askPlacement(column, nodes) {
  const option = (value, text) => h("option", { value }, text);
  const what = h(
    "select",
    { id: "ask-what" },
    option("column", `only ${column.column}`),
    option("table", `all of ${called(column)}`),
  );
  const where = h(
    "select",
    { id: "ask-where" },
    ...nodes.filter((n) => n.usable).map((n) => option(`node(${n.node})`, `on node ${n.node}`)),
    option("ivp", "in ranges over all nodes"),
    option("interleaved", "page by page over all nodes"),
    option("replicated", "a copy on each node"),
    option("other", "as I say"),
  );
  const said = h("input", {
    id: "ask-said",
    type: "text",
    value: column.placement ?? "",
    autocomplete: "off",
    spellcheck: "false",
  });
  const own = h("label", { class: "field" }, "Placement", said);
  const sqlOf = () => {
    own.hidden = where.value !== "other";
    const table = `ALTER TABLE ${quoted(column.schema)}.${quoted(column.table)}`;
    const text = where.value === "other" ? said.value : where.value;
    const of = what.value === "column" ? ` ALTER COLUMN ${quoted(column.column)}` : "";
    return `${table}${of} SET PLACEMENT ${literal(text)}`;
  };
  ask(
    `Place ${called(column)}.${column.column}`,
    `It lies as ${column.placement ?? "its table says"}. What a user has placed, the placer leaves there.`,
    sqlOf,
    [h("label", { class: "field" }, "What", what), h("label", { class: "field" }, "Where", where), own],
  );
}

/** Asks whether a decision of the placer is to be undone. */
export function askUndo(entry) {
  ask(
    `Undo decision ${entry.number}`,
    `${entry.table}.${entry.column} goes back to ${entry.from_placement}, and the placer does not decide so again.`,
    () => `ALTER SYSTEM UNDO PLACEMENT ${Number(entry.number)}`,
    [],
  );
}

// Where states come from: the server, once a second, or a recorded run, at a place that is chosen.

async function json(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message ?? `the server answers ${answer.status}`);
  return body;
}

/** What is there to be shown: `{live: true}`, or a run with the seconds of its states. */
export const run = () => json("/api/run");

/** The state of the server now, or of a run at a place. */
export const state = (place) => json(place === undefined ? "/api/state" : `/api/state?at=${place}`);

/** Asks the server to do something; an error says what it said. */
export async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error?.message ?? `the server answers ${answer.status}`);
  return said;
}

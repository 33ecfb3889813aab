// Elements. Texts of users become text nodes and nothing else: nothing here takes HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element with attributes, listeners ("onclick") and children, which are elements or texts. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same, of SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Sets an attribute where it is another; null and false take it away. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value))
    element.setAttribute(name, value === true ? "" : String(value));
}

/** Sets an element's text where it is another. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets a variable of CSS. */
export function variable(element, name, value) {
  if (element.style.getPropertyValue(name) !== String(value)) element.style.setProperty(name, String(value));
}

/** Shows items as children: those that stay keep their element, so that focus and hovering do. */
export function list(parent, items, key, create, update) {
  const known = parent.known ?? (parent.known = new Map());
  const seen = new Set();
  let before = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (seen.has(name)) continue;
    seen.add(name);
    let element = known.get(name);
    if (!element) {
      element = create(item);
      known.set(name, element);
    }
    update(element, item);
    if (element === before) before = before.nextElementSibling;
    else parent.insertBefore(element, before);
  }
  for (const [name, element] of known) {
    if (!seen.has(name)) {
      element.remove();
      known.delete(name);
    }
  }
}

/** The element of an id. */
export const by = (id) => document.getElementById(id);

/** Elements of the page: found by id, or made. */

export const OWN = ""; // the choice of a text of one's own among the talks

/** @template {HTMLElement} [T=HTMLElement] @param {string} id @returns {T} */
export const $ = (id) => /** @type {T} */ (/** @type {unknown} */ (document.getElementById(id)));

/** @param {string} name @param {string} [className] @param {string} [text] @returns {HTMLElement} */
export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

/** @param {string} name @param {Record<string, string | number>} [attributes] @param {string} [text] @returns {SVGElement} */
export function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text) made.textContent = text;
  return made;
}

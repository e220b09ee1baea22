/** The parts of the page by name, and what two of its modules must agree on. */

export const OWN = ""; // the choice of a text of one's own among the talks

/** @template {HTMLElement} [T=HTMLElement] @param {string} id @returns {T} */
export const $ = (id) => /** @type {T} */ (/** @type {unknown} */ (document.getElementById(id)));

"use strict";
// Asks for this page again and changes what differs: scroll, focus and open details stay.
(() => {
  const PERIOD = 3000, LIMIT = 8000;
  const gone = document.getElementById("gone");
  let timer = 0, asking = false;

  const keyOf = (one) =>
    one.nodeType !== 1 ? ""
    : one.dataset.key || one.id || (one.localName === "tr" ? one.firstChild.textContent : "");
  const alike = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

  const setAttributes = (was, now) => {
    const kept = (name) => name === "open" && was.localName === "details";
    for (const { name, value } of now.attributes)
      if (!kept(name) && was.getAttribute(name) !== value) was.setAttribute(name, value);
    for (const { name } of [...was.attributes])
      if (!kept(name) && !now.hasAttribute(name)) was.removeAttribute(name);
  };

  const update = (was, now) => {
    if (was.isEqualNode(now)) return;
    if (was.nodeType !== 1) {
      if (was.data !== now.data) was.data = now.data;
      return;
    }
    setAttributes(was, now);
    const named = new Map();
    for (const one of was.children) if (keyOf(one)) named.set(one.nodeName + keyOf(one), one);
    let at = was.firstChild;
    for (const next of [...now.childNodes]) {
      const name = next.nodeName + keyOf(next);
      const found = at && alike(at, next) ? at : named.get(name);
      named.delete(name);
      if (!found) {
        was.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (found === at) at = at.nextSibling;
      else was.insertBefore(found, at);
      update(found, next);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  const show = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const was = document.getElementById("page"), now = next.getElementById("page");
    if (!now) throw new Error("not this page");
    if (was.dataset.edition !== now.dataset.edition) return location.reload();
    const focused = document.activeElement;
    update(was, now);
    if (focused !== document.activeElement && focused.isConnected)
      focused.focus({ preventScroll: true });
    if (document.title !== next.title) document.title = next.title;
    setIcon(icon(next).href);
  };

  const icon = (page) => page.querySelector("link[rel=icon]");
  const setIcon = (href) => {
    if (icon(document).href !== href) icon(document).href = href;
  };

  const say = (text) => {
    if (gone.textContent !== text) gone.textContent = text;
    gone.hidden = !text;
    document.body.classList.toggle("stale", Boolean(text));
  };

  // Also in a row of tabs, nobody may take it for how things stand.
  const lose = (state, text) => {
    const since = document.querySelector("footer time").textContent;
    say(`${text} ${since}: what you see is how it was then.`);
    const title = document.title.replace(/^.*? · /, `${state} · `);
    if (document.title !== title) document.title = title;
    setIcon(icon(document).href.replace(/%23[0-9a-f]{6}/, "%236e7781"));
  };

  const ask = async () => {
    if (asking || document.hidden) return;
    asking = true;
    const begun = performance.now();
    try {
      const answer = await fetch(location.pathname + location.search, {
        cache: "no-store",
        signal: AbortSignal.timeout(LIMIT),
      });
      const text = await answer.text();
      if (answer.status === 404 && text.includes("--no-status")) {
        lose("Not shown", "The daemon runs with --no-status now, and shows nothing since");
      } else if (answer.ok) {
        show(text);
        say("");
      } else throw new Error(`HTTP ${answer.status}`);
    } catch (error) {
      lose("No answer", "No answer since");
    } finally {
      asking = false;
      // A page of thousands of devices is asked for less often.
      timer = setTimeout(ask, Math.max(PERIOD, 10 * (performance.now() - begun)));
    }
  };

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) ask();
  });
  timer = setTimeout(ask, PERIOD);
})();

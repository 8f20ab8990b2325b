// Maps of points: the one nearest to the pointer, or that arrow keys move to, is named below.
for (const map of document.querySelectorAll("svg.map")) {
  const points = [...map.querySelectorAll("[data-name]")];
  const places = points.map((one) => [Number(one.dataset.x), Number(one.dataset.y)]);
  const said = map.parentElement.querySelector("output");
  let at = -1;
  function go(place) {
    if (place < 0) return;
    points[at]?.classList.remove("here");
    at = place;
    points[at].classList.add("here");
    said.textContent = points[at].dataset.name;
  }
  // The nearest point in the direction, what lies aside counting twice.
  function next(dx, dy) {
    if (at < 0) return 0;
    const [x, y] = places[at];
    let best = at, least = Infinity;
    places.forEach(([px, py], place) => {
      const along = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (along > 0.5 && along + 2 * aside < least) { least = along + 2 * aside; best = place; }
    });
    return best;
  }
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  map.addEventListener("keydown", (event) => {
    if (!(event.key in ways)) return;
    event.preventDefault();
    go(next(...ways[event.key]));
  });
  function nearest(event) {
    const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      map.getScreenCTM().inverse());
    let best = -1, least = Infinity;
    places.forEach(([x, y], place) => {
      const distance = Math.hypot(x - spot.x, y - spot.y);
      if (distance < least) { least = distance; best = place; }
    });
    go(best);
  }
  map.addEventListener("pointermove", nearest);
  map.addEventListener("pointerdown", nearest);
}

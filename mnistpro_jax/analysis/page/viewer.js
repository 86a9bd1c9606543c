// Thumbnails and the step-by-step viewer. All data is in the page: #episodes holds what analysis/trajectories.py made.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("episodes").textContent);
  const dialog = document.getElementById("viewer");
  const stage = document.getElementById("stage");
  const slider = document.getElementById("step");
  const hidden = document.getElementById("hidden");
  const find = (id) => document.getElementById(id);
  const ZOOM = 2;
  let run, episode, picture, timer = null;

  const verdict = (e) => e.answer === null
    ? `no answer (${e.ending}), it was ${e.label}`
    : e.right ? `answered ${e.answer}, right` : `answered ${e.answer}, it was ${e.label}`;

  data.runs.forEach((r, number) => {
    const home = document.querySelector(`[data-run="${number}"]`);
    const thumbs = home.querySelector(".thumbs");
    const show = (kind) => {
      home.querySelectorAll(".filters button").forEach((b) => b.classList.toggle("on", b.dataset.kind === kind));
      thumbs.querySelectorAll(".thumb").forEach((t) => {
        t.hidden = !(kind === "all" || (kind === "right") === t.classList.contains("right"));
      });
    };
    r.episodes.forEach((e) => {
      const button = document.createElement("button");
      button.className = "thumb" + (e.right ? " right" : "");
      button.title = verdict(e);
      const image = new Image();
      image.loading = "lazy";
      image.alt = `episode ${e.number}, ${verdict(e)}`;
      image.src = e.thumb;
      const text = document.createElement("span");
      const name = document.createElement("b");
      name.textContent = e.answer ?? "\u2013";
      text.append(`#${e.number}: ${e.label} \u2192 `, name, `, ${e.actions.length} steps`);
      button.append(image, text);
      button.addEventListener("click", () => open(r, e));
      thumbs.append(button);
    });
    home.querySelectorAll(".filters button").forEach((b) => b.addEventListener("click", () => show(b.dataset.kind)));
    show("all");
  });

  function open(r, e) {
    run = r; episode = e;
    find("title").textContent = `${r.name}, level ${r.level}, episode ${e.number}`;
    const outcome = find("outcome");
    outcome.textContent = `${verdict(e)}; ${(100 * e.seen).toFixed(1)} % of the stroke seen`;
    outcome.className = e.right ? "right-text" : "wrong-text";
    slider.max = e.actions.length;
    slider.value = 0;
    picture = new Image();
    picture.onload = () => { stage.width = picture.width * ZOOM; stage.height = picture.height * ZOOM; draw(); };
    picture.src = data.canvases[e.canvas];
    if (!dialog.open) dialog.showModal();
  }

  function draw() {
    const step = Number(slider.value), shown = Math.min(step, episode.windows.length - 1), side = run.window * ZOOM;
    const pen = stage.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = "rgb(128,128,128)";
    pen.fillRect(0, 0, stage.width, stage.height);
    if (hidden.checked) {
      pen.globalAlpha = 0.25;
      pen.drawImage(picture, 0, 0, stage.width, stage.height);
      pen.globalAlpha = 1;
    }
    for (const [x, y] of episode.windows.slice(0, shown + 1)) {
      pen.drawImage(picture, x, y, run.window, run.window, x * ZOOM, y * ZOOM, side, side);
    }
    const centres = episode.windows.slice(0, shown + 1).map(([x, y]) => [(x + run.window / 2) * ZOOM, (y + run.window / 2) * ZOOM]);
    pen.lineWidth = 3;
    pen.strokeStyle = "#2563eb";
    pen.beginPath();
    centres.forEach(([x, y]) => pen.lineTo(x, y));
    pen.stroke();
    pen.font = "bold 13px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    centres.forEach(([x, y], k) => {
      pen.fillStyle = k === shown ? "#ea580c" : "#2563eb";
      pen.beginPath(); pen.arc(x, y, 10, 0, 2 * Math.PI); pen.fill();
      pen.fillStyle = "#fff"; pen.fillText(k, x, y + 0.5);
    });
    const [x, y] = episode.windows[shown];
    pen.strokeStyle = "rgb(0,229,255)";
    pen.lineWidth = 3;
    pen.strokeRect(x * ZOOM + 1.5, y * ZOOM + 1.5, side - 3, side - 3);
    const action = episode.actions[step - 1];
    const done = step === 0 ? "the first window" : action === "answer" ? verdict(episode) : action === "invalid" ? "an invalid action" : `moved ${action}`;
    find("now").textContent = `${step} of ${episode.actions.length}: ${done}`;
    find("said").textContent = step > 0 ? episode.said[step - 1] ?? "" : "";
  }

  function turn(by) {
    slider.value = Number(slider.value) + by;
    draw();
  }
  function play() {
    if (timer !== null) return stop();
    if (slider.value === slider.max) slider.value = 0;
    draw();
    find("play").textContent = "pause";
    timer = setInterval(() => { turn(1); if (slider.value === slider.max) stop(); }, 600);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    find("play").textContent = "play";
  }
  function neighbour(by) {
    const at = run.episodes.indexOf(episode) + by;
    if (at >= 0 && at < run.episodes.length) { stop(); open(run, run.episodes[at]); }
  }
  slider.addEventListener("input", draw);
  hidden.addEventListener("change", draw);
  find("back").addEventListener("click", () => turn(-1));
  find("forward").addEventListener("click", () => turn(1));
  find("play").addEventListener("click", play);
  find("previous").addEventListener("click", () => neighbour(-1));
  find("next").addEventListener("click", () => neighbour(1));
  find("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", stop);
  dialog.addEventListener("keydown", (event) => {
    if (event.target === slider && event.key.startsWith("Arrow")) return;
    if (event.key === "ArrowLeft") turn(-1);
    else if (event.key === "ArrowRight") turn(1);
    else if (event.key === " " && event.target.tagName !== "BUTTON") play();
    else return;
    event.preventDefault();
  });
  // report.html#episode=RUN/NUMBER opens an episode, RUN counted from 0.
  const wanted = /^#episode=(\d+)\/(\d+)(?:\/(\d+))?$/.exec(location.hash);
  const r = wanted && data.runs[Number(wanted[1])];
  const e = r && r.episodes.find((one) => one.number === Number(wanted[2]));
  if (e) {
    open(r, e);
    slider.value = wanted[3] ?? 0;
  }
})();

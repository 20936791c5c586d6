// The image: two pictures at the resolution of the cube, drawn with zoom and pan.

export const PINS = ['#e0523f', '#2f9e63', '#a05bd6', '#e08a12', '#139cb5', '#d6468f'];

export class Image {
  constructor(canvas, rows, cols) {
    this.canvas = canvas;
    this.rows = rows;
    this.cols = cols;
    this.zoom = 1;
    this.left = 0;
    this.top = 0;
    this.fitted = true;
    this.divider = 0.5;
    this.form = 'one'; // or 'swipe', or 'beside': two panes with one zoom
    this.choosing = false; // dragging draws a region in the place of moving the image
    this.pins = [];
    this.regions = [];
    this.drawn = null;
    this.over = null;
    this.onhover = () => {};
    this.onclick = () => {};
    this.onregion = () => {};
    this.onview = () => {};
    this.pictures = [0, 1].map(() => {
      const c = document.createElement('canvas');
      c.width = cols;
      c.height = rows;
      const context = c.getContext('2d');
      const data = context.createImageData(cols, rows);
      return { canvas: c, context, data, pixels: new Uint32Array(data.data.buffer) };
    });
    this.listen();
    new ResizeObserver(() => { this.resize(); }).observe(canvas);
  }

  // Fill picture 0 (the layer, or the left side of a swipe) or 1 (its right side).
  fill(which, painter) {
    const p = this.pictures[which];
    painter(p.pixels);
    p.context.putImageData(p.data, 0, 0);
  }

  get box() { return this.canvas.getBoundingClientRect(); }

  // The pane: all of the canvas, or its left half, which the right one repeats.
  get pane() {
    const { width, height } = this.box;
    return { width: this.form === 'beside' ? width / 2 : width, height };
  }

  inPane(x) { return this.form === 'beside' ? x % this.pane.width : x; }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    const { width, height } = this.box;
    if (!width || !height) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.fitted) this.fit();
    else this.draw();
  }

  get fitting() {
    const { width, height } = this.pane;
    return Math.min((width - 16) / this.cols, (height - 16) / this.rows);
  }

  setForm(form) {
    if (form === this.form) return;
    this.form = form;
    if (this.fitted) this.fit();
    else { this.keepInSight(); this.draw(); }
  }

  fit() {
    const { width, height } = this.pane;
    this.zoom = this.fitting;
    this.left = (width - this.cols * this.zoom) / 2;
    this.top = (height - this.rows * this.zoom) / 2;
    this.fitted = true;
    this.draw();
  }

  zoomAt(factor, x, y) {
    const { width, height } = this.pane;
    const cx = x === undefined ? width / 2 : this.inPane(x);
    const cy = y ?? height / 2;
    const next = Math.min(64, Math.max(this.fitting / 2, this.zoom * factor));
    this.left = cx - ((cx - this.left) * next) / this.zoom;
    this.top = cy - ((cy - this.top) * next) / this.zoom;
    this.zoom = next;
    this.fitted = false;
    this.keepInSight();
    this.draw();
  }

  keepInSight() {
    const { width, height } = this.pane;
    const margin = 40;
    this.left = Math.min(width - margin, Math.max(margin - this.cols * this.zoom, this.left));
    this.top = Math.min(height - margin, Math.max(margin - this.rows * this.zoom, this.top));
  }

  pixelAt(x, y) {
    const col = Math.floor((this.inPane(x) - this.left) / this.zoom);
    const row = Math.floor((y - this.top) / this.zoom);
    return row >= 0 && row < this.rows && col >= 0 && col < this.cols ? { row, col } : null;
  }

  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => { this.drawing = false; this.drawNow(); });
  }

  drawNow() {
    const ratio = window.devicePixelRatio || 1;
    const c = this.canvas.getContext('2d');
    const { width, height } = this.box;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.imageSmoothingEnabled = this.zoom < 1;
    const { width: half } = this.pane;
    if (this.form === 'beside') {
      this.drawPane(c, 0, 0, half, 0);
      this.drawPane(c, 1, half, half, half);
    } else {
      this.drawPane(c, 0, 0, width, 0);
      if (this.form === 'swipe') this.drawPane(c, 1, this.divider * width, width, 0);
    }
    this.onview();
  }

  // One picture with its marks, from column 'from' of the canvas on, moved by 'shift'.
  drawPane(c, which, from, wide, shift) {
    c.save();
    c.beginPath();
    c.rect(from, 0, wide, this.box.height);
    c.clip();
    c.clearRect(from, 0, wide, this.box.height);
    c.translate(shift, 0);
    c.drawImage(this.pictures[which].canvas, this.left, this.top, this.cols * this.zoom, this.rows * this.zoom);
    for (const region of this.regions) this.frame(c, region, region.colour);
    if (this.drawn) this.frame(c, this.drawn, '#fff');
    for (const pin of this.pins) this.mark(c, pin, pin.colour);
    if (this.over && (this.zoom >= 6 || this.form === 'beside')) {
      const side = Math.max(this.zoom, 5);
      c.strokeStyle = '#fff';
      c.lineWidth = 1;
      c.strokeRect(this.left + (this.over.col + 0.5) * this.zoom - side / 2, this.top + (this.over.row + 0.5) * this.zoom - side / 2, side, side);
    }
    c.restore();
  }

  frame(c, { top, left, bottom, right }, colour) {
    const box = [this.left + left * this.zoom, this.top + top * this.zoom, (right - left) * this.zoom, (bottom - top) * this.zoom];
    c.lineWidth = 3.5;
    c.strokeStyle = '#fff9';
    c.strokeRect(...box);
    c.lineWidth = 1.5;
    c.strokeStyle = colour;
    c.strokeRect(...box);
  }

  mark(c, { row, col }, colour) {
    const x = this.left + (col + 0.5) * this.zoom;
    const y = this.top + (row + 0.5) * this.zoom;
    c.beginPath();
    c.arc(x, y, 6, 0, 2 * Math.PI);
    c.lineWidth = 4.5;
    c.strokeStyle = '#fff';
    c.stroke();
    c.lineWidth = 2.5;
    c.strokeStyle = colour;
    c.stroke();
  }

  listen() {
    const canvas = this.canvas;
    let from = null;
    canvas.addEventListener('pointerdown', (e) => {
      if (e.button !== 0) return;
      canvas.setPointerCapture(e.pointerId);
      const chosen = this.choosing || e.shiftKey;
      from = { x: e.offsetX, y: e.offsetY, left: this.left, top: this.top, moved: false, chosen };
    });
    canvas.addEventListener('pointermove', (e) => {
      if (from) {
        const dx = e.offsetX - from.x;
        const dy = e.offsetY - from.y;
        if (!from.moved && Math.hypot(dx, dy) < 4) return;
        from.moved = true;
        if (from.chosen) {
          this.drawn = this.between(from, e);
          this.draw();
          return;
        }
        this.fitted = false;
        canvas.classList.add('moving');
        this.left = from.left + dx;
        this.top = from.top + dy;
        this.keepInSight();
        this.draw();
        return;
      }
      this.hover(this.pixelAt(e.offsetX, e.offsetY));
    });
    const end = (e) => {
      if (!from) return;
      const clicked = !from.moved && e.type === 'pointerup';
      const region = this.drawn;
      from = null;
      this.drawn = null;
      if (region && e.type === 'pointerup') { this.onregion(region); return; }
      canvas.classList.remove('moving');
      const place = this.pixelAt(e.offsetX, e.offsetY);
      if (clicked && place) this.onclick(place);
    };
    canvas.addEventListener('pointerup', end);
    canvas.addEventListener('pointercancel', end);
    canvas.addEventListener('pointerleave', () => this.hover(null));
    canvas.addEventListener('wheel', (e) => {
      e.preventDefault();
      this.zoomAt(Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) * 0.004), e.offsetX, e.offsetY);
    }, { passive: false });
  }

  // The rectangle of pixels between two places of the canvas, within the image.
  between(a, b) {
    const [x0, x1] = [this.inPane(a.x), this.inPane(b.offsetX)].sort((p, q) => p - q);
    const [y0, y1] = [a.y, b.offsetY].sort((p, q) => p - q);
    const col = (x) => Math.max(0, Math.min(this.cols - 1, Math.floor((x - this.left) / this.zoom)));
    const row = (y) => Math.max(0, Math.min(this.rows - 1, Math.floor((y - this.top) / this.zoom)));
    return { top: row(y0), left: col(x0), bottom: row(y1) + 1, right: col(x1) + 1 };
  }

  hover(place) {
    const same = this.over && place && this.over.row === place.row && this.over.col === place.col;
    if (same || (!this.over && !place)) return;
    this.over = place;
    this.onhover(place);
    if (this.zoom >= 6 || this.form === 'beside') this.draw();
  }
}

#!/usr/bin/env python3
"""Makes crates/dyweight-report/assets/fonts/plot-{regular,bold}.ttf: the glyphs charts need, from DejaVu Sans 2.37.

    pip install fonttools==4.68.0        # Debian: apt install fonts-dejavu-core
    python tools/subset_font.py /usr/share/fonts/truetype/dejavu

Kept: ASCII, Latin-1, Greek, super- and subscript digits, arrows and the mathematical signs below. Dropped: hinting and
layout tables, which the drawing code does not read. The licence (crates/dyweight-report/assets/fonts/LICENSE) allows both.
"""

import sys
from pathlib import Path

from fontTools import subset

SIGNS = (
    "−×÷±·•…–—‘’“”‰′″←↑→↓↔⇒∂∆∇∈∑∏√∝∞∫∼≈≠≡≤≥≪≫⊙‖ℓ"
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ₀₁₂₃₄₅₆₇₈₉₊₋₌ₙᵢ"
)
CODES = [*range(0x20, 0x7F), *range(0xA0, 0x100), *range(0x391, 0x3CA), *map(ord, SIGNS)]


def main(folder: Path) -> None:
    target = Path(__file__).resolve().parent.parent / "assets" / "fonts"
    for source, name in [("DejaVuSans.ttf", "plot-regular.ttf"), ("DejaVuSans-Bold.ttf", "plot-bold.ttf")]:
        options = subset.Options(hinting=False, layout_features=[], notdef_outline=True, name_IDs=[0, 1, 2, 13, 14])
        options.drop_tables += ["GPOS", "GSUB", "GDEF", "kern", "FFTM", "gasp"]
        options.recalc_timestamp = False
        font = subset.load_font(folder / source, options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=CODES)
        subsetter.subset(font)
        subset.save_font(font, target / name, options)
        missing = [chr(c) for c in CODES if c not in font.getBestCmap()]
        print(name, (target / name).stat().st_size, "bytes; not in the source:", "".join(missing) or "none")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

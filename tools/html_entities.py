"""Writes the named character references of HTML (WHATWG, named character references) as lines `name code-point…`.

    python tools/html_entities.py > crates/dyweight-models/assets/html_entities.txt

Names keep their semicolon where they need one. Python's own table is a copy of the standard's.
"""

from html.entities import html5

for name in sorted(html5):
    print(name, *(f"{ord(c):x}" for c in html5[name]))

"""Products that no shop should have: whatever a page, a click or a price can stumble over."""

from __future__ import annotations

from typing import Any


def product(asin: str, **fields: Any) -> dict[str, Any]:
    """A plain product record in the format of `items_shuffle*.json`, with some fields changed."""
    plain = {
        "name": f"Oddmark Plain Kettle {asin}",
        "asin": asin,
        "category": "garden",
        "query": "kettles",
        "product_category": "Home & Kitchen › Kitchen › Kettles",
        "full_description": "A kettle that boils water.",
        "small_description": ["Boils water quickly.", "Stainless steel."],
        "pricing": "$24.99",
        "customization_options": {"color": options("red", "blue")},
        "images": ["kettle.jpg"],
    }
    return {**plain, **fields}


def options(*values: str) -> list[dict[str, Any]]:
    return [{"value": value, "image": None} for value in values]


PRODUCTS = [
    product("B0ODD00001", name='Kettle "Deluxe" & <b>Bold</b> – 1.7 l, l\'eau', pricing="$10.00 to $30.00"),
    product("B0ODD00002", name="  Kettle in  wide   spaces ", full_description="   ", small_description=""),
    product("B0ODD00003", full_description="\n", small_description=["", " ", " \n ", "&amp; &lt;ok&gt;"]),
    product("B0ODD00004", customization_options=""),
    product("B0ODD00005", customization_options={"Color": options("Red/Blue", " teal "), "Size": None}),
    product(
        "B0ODD00006",
        customization_options={"color": options("one", "two"), "style": options("two", "three")},
    ),
    product(
        "B0ODD00007",
        customization_options={
            "trap": options("description", "Attributes", "buy now", "< prev", "next >", "search", "reviews")
        },
    ),
    product(
        "B0ODD00008",
        customization_options={"note": options('12" wide', "café", "it's <i>", "", "a]b", "x[y")},
    ),
    product("B0ODD00009", customization_options={"color": options("red"), "COLOR": options("green", "gold")}),
    product("B0ODD00010", pricing="", small_description="One text, not a list"),
    product("B0ODD00011", pricing="$1,299.00"),
    product("B0ODD00012", pricing=None, customization_options={"color": []}),
    product("B0ODD00013", pricing="$5.00 to $7.50 to $9.00", query="  Kettles "),
    product("B0ODD00001", name="the second of one asin"),
    product("nan", name="a product without an asin"),
    product("B0ODDTOOLONG", name="a product whose asin is too long"),
    product("B0ODD00014", product_category="Home & Kitchen", query="pots", name="boils and is quick"),
    product("B0ODD00015", name="Quarzuhr Größe ½ Ünïcode 日本 🫖", pricing="$989.99"),
    product(
        "B0ODD00016",
        pricing="$975.50",
        customization_options={"item_page": options("color", "search_results")},
    ),
]  # fmt: skip

ATTRIBUTES = {
    "B0ODD00001": {"attributes": ["stainless steel", "fast boil"], "instruction": "Find me fast boil kettles",
                   "instruction_attributes": ["fast boil"]},
    "B0ODD00002": {"attributes": []},
    "B0ODD00003": {},
    "B0ODD00006": {"attributes": ["stainless steel"], "instruction": "Find me stainless steel kettles",
                   "instruction_attributes": ["stainless steel"]},
    "B0ODD00008": {"attributes": ["wide mouth"], "instruction": "Find me wide mouth kettles",
                   "instruction_attributes": ["wide mouth", "quick"]},
    "B0ODD00015": {"attributes": ["größe ½"], "instruction": "Find me größe ½ kettles",
                   "instruction_attributes": ["größe ½"]},
}  # fmt: skip

REQUESTS = {
    "B0ODD00001": [
        {"instruction": "i want a kettle <b>now</b> & \"fast\"...", "instruction_attributes": ["fast boil"],
         "instruction_options": ["red"]},
        {"instruction": "a request without attributes", "instruction_attributes": [],
         "instruction_options": []},
    ],
    "B0ODD00007": [{"instruction": "a kettle that traps", "instruction_attributes": ["stainless steel"],
                    "instruction_options": {"trap": "next >"}}],
    "B0ODD00011": [{"instruction": "a costly kettle.", "instruction_attributes": ["boils water"],
                    "instruction_options": ["blue"]}],
    "B0ODD00015": [{"instruction": "kettle größe ½", "instruction_attributes": ["größe ½"],
                    "instruction_options": []}],
    "B0ODD00016": [{"instruction": "kettle at the limit of all prices", "instruction_attributes": ["quick"],
                    "instruction_options": ["color"]}],
}  # fmt: skip

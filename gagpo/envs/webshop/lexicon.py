"""What the generated catalogue is made of: kinds of products, their attributes, options and prices."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of product: `query` is its narrow category, `path` its broad one, `attributes` what
    its products can be or have, `options` the names of OPTIONS to choose from, `price` in dollars."""

    category: str
    query: str
    path: str
    noun: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price: tuple[float, float]


def _kind(
    category: str, query: str, path: str, noun: str, attributes: str, options: str, low: float, high: float
) -> Kind:
    split = tuple(item.strip() for item in attributes.split(","))
    return Kind(category, query, path, noun, split, tuple(options.split()), (low, high))


BEAUTY = "Beauty & Personal Care"
CLOTHING = "Clothing, Shoes & Jewelry"
HOME = "Home & Kitchen"
FOOD = "Grocery & Gourmet Food"
ELECTRONICS = "Electronics"

SKIN = "cruelty free, paraben free, fragrance free, alcohol free, oil free, plant based, dry skin"
HAIR = "sulfate free, paraben free, cruelty free, color safe, damaged hair, dry hair, curly hair, argan oil"
CLOTH = "machine wash, hand wash, long sleeve, short sleeve, button closure, slim fit, relaxed fit, quick dry"
FOODS = "gluten free, sugar free, dairy free, non gmo, low sodium, low carb, nut free, certified organic"
DEVICE = (
    "fast charging, easy to use, high definition, heavy duty, long lasting, water resistant, plug and play"
)
FURNITURE = "solid wood, easy to assemble, space saving, heavy duty, metal legs, storage space, easy to clean"
FABRIC = "machine washable, super soft, eco friendly, double sided, fade resistant, easy to clean"

KINDS = (
    _kind("beauty", "face creams", f"{BEAUTY} › Skin Care › Face", "face cream",
          f"{SKIN}, hyaluronic acid, anti aging", "scent volume", 8, 45),
    _kind("beauty", "shampoos", f"{BEAUTY} › Hair Care › Shampoo", "shampoo",
          f"{HAIR}, tea tree, hair growth", "scent volume", 6, 32),
    _kind("beauty", "hair masks", f"{BEAUTY} › Hair Care › Treatments", "hair mask",
          f"{HAIR}, coconut oil, leave in", "scent volume", 7, 38),
    _kind("beauty", "toothbrushes", f"{BEAUTY} › Oral Care › Toothbrushes", "toothbrush",
          "bpa free, soft bristles, travel size, eco friendly, easy to use, sensitive teeth, teeth whitening",
          "color pack", 3, 28),
    _kind("beauty", "lip balms", f"{BEAUTY} › Makeup › Lips", "lip balm",
          f"{SKIN}, long lasting, shea butter", "scent pack", 3, 18),
    _kind("beauty", "makeup brushes", f"{BEAUTY} › Tools › Brushes", "makeup brush set",
          "cruelty free, easy to carry, easy to clean, synthetic hair, travel size, eye shadow, non toxic",
          "color pack", 6, 40),
    _kind("electronics", "phone cases", f"{ELECTRONICS} › Phones › Cases", "phone case",
          "heavy duty, wireless charging, dust proof, tempered glass, easy to install, hands free",
          "color model", 7, 34),
    _kind("electronics", "headphones", f"{ELECTRONICS} › Audio › Headphones", "headphones",
          f"{DEVICE}, noise cancelling, hands free, stereo sound", "color style", 15, 180),
    _kind("electronics", "cables", f"{ELECTRONICS} › Accessories › Cables", "usb cable",
          f"{DEVICE}, gold plated, high speed, nylon braided", "color length", 4, 26),
    _kind("electronics", "speakers", f"{ELECTRONICS} › Audio › Speakers", "portable speaker",
          f"{DEVICE}, stereo sound, hands free, easy to carry", "color style", 18, 190),
    _kind("electronics", "tablets", f"{ELECTRONICS} › Computers › Tablets", "tablet",
          f"{DEVICE}, quad core, touch screen, light weight", "color storage", 70, 420),
    _kind("electronics", "tripods", f"{ELECTRONICS} › Cameras › Tripods", "camera tripod",
          f"{DEVICE}, carrying case, quick release, light weight", "color length", 16, 140),
    _kind("fashion", "men's shirts", f"{CLOTHING} › Men › Shirts", "men's shirt",
          f"{CLOTH}, moisture wicking, cotton spandex", "color size", 14, 60),
    _kind("fashion", "women's dresses", f"{CLOTHING} › Women › Dresses", "women's dress",
          f"{CLOTH}, v neck, elastic waist", "color size", 18, 90),
    _kind("fashion", "women's sandals", f"{CLOTHING} › Women › Shoes", "women's sandals",
          "arch support, memory foam, rubber sole, ankle strap, open toe, non slip, leather sole",
          "color shoe", 17, 95),
    _kind("fashion", "men's sneakers", f"{CLOTHING} › Men › Shoes", "men's sneakers",
          "arch support, memory foam, rubber sole, lace up, non slip, light weight, day comfort",
          "color shoe", 28, 150),
    _kind("fashion", "jeans", f"{CLOTHING} › Women › Jeans", "jeans",
          f"{CLOTH}, straight leg, high waist, zipper closure", "color size", 20, 88),
    _kind("fashion", "jackets", f"{CLOTHING} › Men › Jackets", "jacket",
          f"{CLOTH}, fleece lined, zipper closure, water resistant", "color size", 30, 170),
    _kind("garden", "pillow covers", f"{HOME} › Bedding › Pillows", "pillow cover",
          f"{FABRIC}, hidden zipper, living room", "color square", 7, 36),
    _kind("garden", "area rugs", f"{HOME} › Decor › Rugs", "area rug",
          f"{FABRIC}, non slip, living room, pet friendly", "color rug", 24, 260),
    _kind("garden", "sofas", f"{HOME} › Furniture › Living Room", "sofa",
          f"{FURNITURE}, high density, mid century, living room", "color seats", 180, 980),
    _kind("garden", "desks", f"{HOME} › Furniture › Office", "computer desk",
          f"{FURNITURE}, steel frame, home office, white finish", "color width", 60, 390),
    _kind("garden", "table lamps", f"{HOME} › Lighting › Lamps", "table lamp",
          "brushed nickel, easy to install, glass shade, energy efficient, touch control, living room",
          "color style", 18, 150),
    _kind("garden", "candles", f"{HOME} › Decor › Candles", "scented candle",
          "lead free, long lasting, soy wax, hand poured, eco friendly, non toxic, essential oils",
          "scent pack", 8, 44),
    _kind("grocery", "trail mixes", f"{FOOD} › Snacks › Trail Mix", "trail mix",
          f"{FOODS}, high protein, resealable bag", "flavor pack", 6, 38),
    _kind("grocery", "teas", f"{FOOD} › Beverages › Tea", "herbal tea",
          f"{FOODS}, caffeine free, individually wrapped", "flavor pack", 4, 30),
    _kind("grocery", "coffees", f"{FOOD} › Beverages › Coffee", "ground coffee",
          f"{FOODS}, dark roast, fair trade", "flavor pack", 7, 42),
    _kind("grocery", "cookies", f"{FOOD} › Snacks › Cookies", "cookies",
          f"{FOODS}, individually wrapped, artificial colors", "flavor pack", 4, 34),
    _kind("grocery", "pasta sauces", f"{FOOD} › Sauces › Pasta", "pasta sauce",
          f"{FOODS}, slow cooked, natural ingredients", "flavor pack", 4, 26),
    _kind("grocery", "protein bars", f"{FOOD} › Snacks › Bars", "protein bars",
          f"{FOODS}, high protein, keto friendly", "flavor pack", 8, 46),
)  # fmt: skip


class Choice(NamedTuple):
    """An option: the name that the page shows, and its values."""

    name: str
    values: tuple[str, ...]


def _choice(name: str, values: str) -> Choice:
    return Choice(name, tuple(value.strip() for value in values.split(",")))


OPTIONS = {
    "color": _choice(
        "color",
        "black, white, navy blue, sky blue, forest green, mint, charcoal grey, light grey, burgundy, coral, "
        "rose pink, lavender, mustard, chocolate, beige, silver, gold, teal, red, orange",
    ),
    "size": _choice("size", "x-small, small, medium, large, x-large, xx-large, 3x-large"),
    "shoe": _choice("size", "5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11 wide"),
    "scent": _choice(
        "scent", "unscented, vanilla, lemon, lavender fields, ocean breeze, cedar, rose, mango, green apple"
    ),
    "volume": _choice("size", "1.7 fl oz, 3.4 fl oz, 8 fl oz, 12 fl oz, 16.9 fl oz"),
    "pack": _choice("size", "single, pack of 2, pack of 3, pack of 4, pack of 6, pack of 12"),
    "model": _choice("model", "galaxy s10, galaxy s21, pixel 6, pixel 7 pro, moto g, xperia 5, zenfone 8"),
    "style": _choice("style", "classic, modern, compact, deluxe, vintage"),
    "length": _choice("length", "3 feet, 6 feet, 10 feet, 15 feet"),
    "storage": _choice("capacity", "32 gb, 64 gb, 128 gb, 256 gb"),
    "square": _choice("size", "16 x 16 inch, 18 x 18 inch, 20 x 20 inch, 24 x 24 inch"),
    "rug": _choice("size", "2 x 3 feet, 4 x 6 feet, 5 x 8 feet, 8 x 10 feet"),
    "seats": _choice("size", "loveseat, three seats, four seats, sectional"),
    "width": _choice("size", "39 inch, 47 inch, 55 inch, 63 inch"),
    "flavor": _choice(
        "flavor name",
        "original, honey roasted, dark chocolate, peanut butter, blueberry, cinnamon, sea salt, spicy chili, "
        "lemon ginger, apple crisp, salted caramel",
    ),
}

BRANDS = (
    "Alder & Finch", "Amberline", "Birchway", "Blue Heron", "Brightwell", "Calder", "Clovermere", "Corvina",
    "Dovetail", "Eastmoor", "Elmhurst", "Fairlane", "Fernbank", "Glenrow", "Halden", "Harrow", "Ivory Lane",
    "Juniper", "Kestrel", "Larkfield", "Linden", "Maplecroft", "Merrow", "Northgate", "Oakley Row", "Orrin",
    "Pinewick", "Quill", "Ravensby", "Redstone", "Rowan", "Saltmarsh", "Silverbrook", "Tamsin", "Thistle",
    "Umber", "Valewood", "Westerly", "Willowby", "Yarrow",
)  # fmt: skip

ATTRIBUTE_SENTENCES = (
    "{Attribute}: made with care so that it does what it says.",
    "You get {attribute} quality in every detail.",
    "Our customers like that it is {attribute}.",
    "{Attribute} and made to last.",
)
PLAIN_SENTENCES = (
    "A good gift for family and friends.",
    "Write to us at any time and we will answer within a day.",
    "Tested in our own workshop before it leaves for your door.",
    "Comes in a simple box without needless packaging.",
)
DESCRIPTIONS = (
    "The {brand} {noun} is a favourite of many homes. It is {first} and made for every day of the year.",
    "Meet the new {noun} by {brand}. People who look for something {first} will feel at home with it.",
    "{brand} has made each {noun} in small numbers since the first day. This one is known to be {first}.",
)

# What a shopper says; {first} and {rest} are attributes, {noun} is the kind, {choices} the options.
REQUESTS = (
    "i am looking for a {first} {noun}{rest}{choices}",
    "i need a {noun} that is {first}{rest}{choices}",
    "i want to buy a {noun} with {first}{rest}{choices}",
    "find me a {first} {noun}{rest}{choices}",
    "please help me find a {noun}, {first}{rest}{choices}",
    "im shopping for {first} {noun}{rest}{choices}",
)

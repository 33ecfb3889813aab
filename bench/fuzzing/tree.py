"""SQL as a tree, so that a query can be written in two dialects and be made smaller piece by piece."""

OURS, DUCK = "nearside", "duckdb"


class Dialect:
    """A piece that the engines spell differently."""

    def __init__(self, ours, duck):
        self.spelling = {OURS: ours, DUCK: duck}

    def text(self, engine):
        return self.spelling[engine]


def text_of(part, engine):
    return part if isinstance(part, str) else part.text(engine)


class Node:
    """A template with its parts. `kind` is the kind of value of an expression, "query" for a SELECT, else None.

    `stand_in` is what the minimiser put in its place; `partner` is a node that goes when this one goes; `orders_by` is the output
    column that an item of the outermost ORDER BY names."""

    def __init__(self, kind, template, *parts):
        self.kind, self.template, self.parts = kind, template, parts
        self.stand_in = self.partner = self.orders_by = None

    def text(self, engine):
        if self.stand_in is not None:
            return self.stand_in.text(engine)
        return self.template.format(*(text_of(part, engine) for part in self.parts))


class Items(Node):
    """Parts with a separator between them, each of which can go; `before` and `after` go with the last one."""

    def __init__(self, parts, separator=", ", before="", after="", fixed=False):
        super().__init__(None, "", *parts)
        self.separator, self.before, self.after, self.fixed = separator, before, after, fixed

    def text(self, engine):
        if self.stand_in is not None:
            return self.stand_in.text(engine)
        texts = [t for t in (text_of(part, engine) for part in self.parts) if t]
        return self.before + self.separator.join(texts) + self.after if texts else ""


EMPTY = Node(None, "")


def walk(node):
    """Every node that is part of the text, each once, outer ones first."""
    waiting, met = [node], set()
    while waiting:
        node = waiting.pop(0)
        while node.stand_in is not None:
            node = node.stand_in
        if id(node) not in met:
            met.add(id(node))
            yield node
            waiting += [part for part in node.parts if isinstance(part, Node)]


def order_names(query):
    """The output columns that the outermost ORDER BY names."""
    return [node.orders_by for node in walk(query) if node.orders_by]

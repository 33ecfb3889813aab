"""Statements of scripts of psql, one by one, with the rows that stand behind COPY FROM STDIN."""

import re

# What a text between dollars begins and ends with.
DOLLARS = re.compile(r"\$([A-Za-z_]\w*)?\$")
# Of psql's own commands those that take the statement before them.
TAKES = re.compile(r"\\(gset|g|gx)\b\s*(.*)")


class Statement:
    def __init__(self, text, data=None, prefix=None):
        # Without an end; `prefix` is that of \gset, whose variables are set from the row.
        self.text, self.data, self.prefix = text, data, prefix


class Script:
    """Reads a script; variables are those of psql."""

    def __init__(self, path, variables):
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.variables = variables
        self.at = 0

    def __iter__(self):
        """Statements as they are asked for, since \\gset changes variables."""
        skipped = []
        while True:
            found = self.next()
            if found is None:
                return
            text, command = found
            takes = TAKES.match(command) if command else None
            if command and not takes:
                self.command(command, skipped)
                continue
            if not text or (skipped and not all(skipped)):
                continue
            text = self.with_variables(text)
            data = None
            if re.match(r"\s*copy\b.*\bfrom\s+stdin\b", text, re.I | re.S):
                data = self.rows()
            yield Statement(text, data, takes.group(2) if takes and takes.group(1) == "gset" else None)

    def rows(self):
        begin = self.text.find("\n", self.at - 1) + 1
        end = self.text.find("\n\\.", begin - 1)
        if end < 0:
            return ""
        self.at = self.text.find("\n", end + 1) + 1
        return self.text[begin:end + 1]

    def command(self, line, skipped):
        name, _, rest = line[1:].partition(" ")
        if name == "set":
            words = re.findall(r":?'(?:[^']|'')*'|\S+", rest)
            if words:
                self.variables[words[0]] = "".join(self.word(word) for word in words[1:])
        elif name == "if":
            skipped.append(False)
        elif name == "else" and skipped:
            skipped[-1] = True
        elif name == "endif" and skipped:
            skipped.pop()

    def word(self, word):
        if word.startswith(":"):
            return self.variables.get(word[1:].strip("'"), "")
        return word[1:-1].replace("''", "'") if word.startswith("'") else word

    def with_variables(self, text):
        def quoted(match):
            quote, name = match.groups()
            value = self.variables.get(name)
            return match.group(0) if value is None else quote + value.replace(quote, quote * 2) + quote

        def plain(match):
            return self.variables.get(match.group(1), match.group(0))

        text = re.sub(r"(?<![:\w]):(['\"])(\w+)\1", quoted, text)
        return re.sub(r"(?<![:\w'\"\[]):([A-Za-z_]\w*)", plain, text)

    def next(self):
        """The text of a statement and the command of psql that ends it, if one does; None at the end."""
        text, out, depth = self.text, [], 0
        while self.at < len(text):
            at, c, two = self.at, text[self.at], text[self.at:self.at + 2]
            if two == "--":
                self.at = self.end_of_line(at)
            elif two == "/*":
                self.at = self.end_of_comment(at)
                out.append(" ")
            elif c in "'\"":
                self.at = self.end_of_quoted(at, c, "".join(out[-2:]))
                out.append(text[at:self.at])
            elif c == "$" and not "".join(out[-1:])[-1:].isalnum() and (mark := DOLLARS.match(text, at)):
                end = text.find(mark.group(0), at + len(mark.group(0)))
                self.at = len(text) if end < 0 else end + len(mark.group(0))
                out.append(text[at:self.at])
            elif two == "\\;":
                self.at += 2
                out.append(";")
            elif c == "\\":
                self.at = self.end_of_line(at)
                return "".join(out).strip(), text[at:self.at].strip()
            elif c == ";" and depth == 0 and not self.is_within_function("".join(out)):
                self.at += 1
                return "".join(out).strip(), None
            else:
                depth = max(0, depth + (c == "(") - (c == ")"))
                out.append(c)
                self.at += 1
        rest = "".join(out).strip()
        return (rest, None) if rest else None

    @staticmethod
    def is_within_function(text):
        return bool(re.search(r"\bbegin\s+atomic\b", text, re.I)) and not re.search(r"\bend\s*$", text, re.I)

    def end_of_line(self, at):
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def end_of_comment(self, at):
        depth, at = 1, at + 2
        while at < len(self.text) and depth:
            two = self.text[at:at + 2]
            depth += (two == "/*") - (two == "*/")
            at += 2 if two in ("/*", "*/") else 1
        return at

    def end_of_quoted(self, at, quote, before):
        escapes = quote == "'" and re.search(r"(^|[^\w$])[eE]$", before)
        at += 1
        while at < len(self.text):
            if escapes and self.text[at] == "\\":
                at += 2
            elif self.text[at] == quote and self.text[at + 1:at + 2] == quote:
                at += 2
            elif self.text[at] == quote:
                return at + 1
            else:
                at += 1
        return at

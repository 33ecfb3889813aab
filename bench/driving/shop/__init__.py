"""A small application of Django, whose tables `with_django` makes, changes, fills and finds."""

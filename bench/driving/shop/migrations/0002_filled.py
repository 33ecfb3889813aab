"""Rows, which the next change meets."""

from django.db import migrations


def fill(apps, _):
    Producer = apps.get_model("shop", "Producer")
    Thing = apps.get_model("shop", "Thing")
    for number in range(5):
        producer = Producer.objects.create(name=f"maker {number}")
        Thing.objects.create(title=f"thing {number}", slug=f"s{number}", price=number, producer=producer, pieces=number)


def empty(apps, _):
    apps.get_model("shop", "Thing").objects.all().delete()
    apps.get_model("shop", "Producer").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [migrations.RunPython(fill, empty)]

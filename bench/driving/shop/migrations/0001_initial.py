"""The shop's first tables."""

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

KEY = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(name="Producer", fields=[KEY, ("name", models.CharField(max_length=50, unique=True))]),
        migrations.CreateModel(name="Sale", fields=[
            KEY,
            ("at", models.DateTimeField()),
            ("buyer", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
        ]),
        migrations.CreateModel(
            name="Thing",
            fields=[
                KEY,
                ("title", models.CharField(max_length=40)),
                ("slug", models.SlugField()),
                ("price", models.DecimalField(decimal_places=2, max_digits=8)),
                ("weight", models.FloatField(default=0)),
                ("pieces", models.IntegerField(default=0)),
                ("on_sale", models.BooleanField(default=True)),
                ("kind", models.CharField(choices=[("t", "Tool"), ("f", "Food")], default="t", max_length=1)),
                ("about", models.JSONField(default=dict)),
                ("words", django.contrib.postgres.fields.ArrayField(
                    base_field=models.TextField(), default=list, size=None)),
                ("key", models.UUIDField(default=uuid.uuid4)),
                ("left", models.TextField(null=True)),
                ("added", models.DateTimeField(auto_now_add=True)),
                ("buyers", models.ManyToManyField(through="shop.Sale", to=settings.AUTH_USER_MODEL)),
                ("producer", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="things",
                                               to="shop.producer")),
            ],
            options={"unique_together": {("producer", "title")}}),
        migrations.AddField(
            model_name="sale", name="thing",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.thing")),
        migrations.AddIndex(model_name="thing", index=models.Index(fields=["pieces"], name="by_pieces")),
    ]

"""What the shop keeps."""

import uuid

from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models


class Maker(models.Model):
    name = models.CharField(max_length=50, unique=True)
    since = models.DateField(null=True)


class Thing(models.Model):
    class Kind(models.TextChoices):
        TOOL = "t"
        FOOD = "f"

    name = models.CharField(max_length=80)
    slug = models.SlugField()
    price = models.DecimalField(max_digits=10, decimal_places=2)
    weight = models.FloatField(null=True)
    pieces = models.PositiveSmallIntegerField(default=0)
    sold = models.BigIntegerField(default=0)
    on_sale = models.BooleanField(default=True, db_index=True)
    kind = models.CharField(max_length=1, choices=Kind.choices, default=Kind.TOOL)
    about = models.JSONField(default=dict)
    words = ArrayField(models.TextField(), default=list)
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    picture = models.BinaryField(null=True)
    warranty = models.DurationField(null=True)
    opens = models.TimeField(null=True)
    added = models.DateTimeField(auto_now_add=True)
    maker = models.ForeignKey(Maker, on_delete=models.PROTECT, related_name="things")
    buyers = models.ManyToManyField(User, through="Sale")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(price__gte=0), name="price_is_not_negative"),
            models.UniqueConstraint(fields=["maker", "name"], name="name_of_a_maker"),
        ]
        indexes = [models.Index(fields=["kind", "price"], name="kind_and_price")]


class Sale(models.Model):
    thing = models.ForeignKey(Thing, on_delete=models.CASCADE)
    buyer = models.ForeignKey(User, on_delete=models.CASCADE)
    at = models.DateTimeField()
    count = models.IntegerField(default=1)

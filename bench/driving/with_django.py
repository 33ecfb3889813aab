"""Django: migrations of its own applications and of a small one, its ORM, and what it finds out of a database."""

import datetime
import decimal
import io
import os
import unittest
import uuid

import django
from django.conf import settings

UTC = datetime.timezone.utc

settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.postgres",
                    "driving.shop"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"],
        "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
        "OPTIONS": {"server_side_binding": bool(os.environ.get("DJANGO_BINDS"))}}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True, TIME_ZONE="UTC", SECRET_KEY="of tests",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
django.setup()

from django.contrib.auth import authenticate  # noqa: E402
from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value, Window  # noqa: E402
from django.db.models.functions import (  # noqa: E402
    Coalesce, Concat, ExtractYear, Length, Lower, Now, Rank, TruncMonth, Upper)

from driving.shop.models import Maker, Sale, Thing  # noqa: E402


def said(*words, **more):
    out = io.StringIO()
    call_command(*words, stdout=out, **more)
    return out.getvalue()


def setUpModule():
    call_command("migrate", verbosity=0)


class Django(unittest.TestCase):
    def setUp(self):
        for model in (Sale, Thing, Maker, User, Group):
            model.objects.all().delete()
        self.maker = Maker.objects.create(name="Ann", since=datetime.date(1999, 12, 31))
        other = Maker.objects.create(name="Bob")
        self.things = Thing.objects.bulk_create([
            Thing(name=f"thing {n}", slug=f"thing-{n}", price=decimal.Decimal(n) / 4,
                weight=None if n % 5 == 0 else n / 3,
                  pieces=n, kind=Thing.Kind.FOOD if n % 3 == 0 else Thing.Kind.TOOL, on_sale=n % 2 == 0,
                  about={"n": n, "parts": ["a", {"b": n}]}, words=[f"w{n}", "all"], picture=bytes([0, n]),
                  warranty=datetime.timedelta(days=n, microseconds=1), opens=datetime.time(8, n),
                  maker=self.maker if n < 20 else other)
            for n in range(30)])

    def test_migrations_go_forth_and_back(self):
        self.assertIn("[X] 0001_initial", said("showmigrations", "shop"))
        self.assertIn("No changes detected", said("makemigrations", "shop", dry_run=True))
        call_command("migrate", "shop", "0002", verbosity=0)
        self.assertIn("[ ] 0003", said("showmigrations", "shop"))
        call_command("migrate", "shop", verbosity=0)
        self.assertIn("CREATE TABLE", said("sqlmigrate", "shop", "0001"))

    def test_objects_go_and_come(self):
        thing = Thing.objects.get(name="thing 7")
        self.assertEqual((thing.price, thing.weight, thing.about, thing.words, bytes(thing.picture), thing.warranty,
                          thing.opens, thing.on_sale),
                         (decimal.Decimal("1.75"), 7 / 3, {"n": 7, "parts": ["a", {"b": 7}]}, ["w7", "all"], b"\0\7",
                          datetime.timedelta(days=7, microseconds=1), datetime.time(8, 7), False))
        self.assertIsInstance(thing.key, uuid.UUID)
        self.assertLess(abs(datetime.datetime.now(UTC) - thing.added), datetime.timedelta(minutes=5))
        thing.price = F("price") * 2 + 1
        thing.save(update_fields=["price"])
        thing.refresh_from_db()
        self.assertEqual(thing.price, decimal.Decimal("4.50"))
        made, is_new = Thing.objects.get_or_create(name="thing 7", maker=self.maker)
        self.assertEqual((made.pk, is_new), (thing.pk, False))
        made, is_new = Maker.objects.update_or_create(name="Cy", defaults={"since": datetime.date(2020, 1, 1)})
        self.assertTrue(is_new)
        self.assertEqual(Thing.objects.filter(pieces__lt=5).update(sold=F("sold") + 3), 5)
        self.assertEqual(Thing.objects.filter(sold=3).delete(), (5, {"shop.Thing": 5}))
        with self.assertRaises(models.ProtectedError):
            self.maker.delete()

    def test_rows_that_are_written_at_once(self):
        Maker.objects.bulk_create([Maker(name="Ann", since=datetime.date(2001, 1, 1)), Maker(name="Dee")],
                                  update_conflicts=True, unique_fields=["name"], update_fields=["since"])
        self.assertEqual(Maker.objects.get(name="Ann").since, datetime.date(2001, 1, 1))
        Maker.objects.bulk_create([Maker(name="Ann"), Maker(name="Eve")], ignore_conflicts=True)
        self.assertEqual(Maker.objects.count(), 4)
        for thing in self.things:
            thing.sold, thing.about = thing.pieces * 2, {"m": thing.pieces}
        self.assertEqual(Thing.objects.bulk_update(self.things, ["sold", "about"]), 30)
        self.assertEqual(Thing.objects.aggregate(Sum("sold"))["sold__sum"], 870)
        self.assertEqual(sum(1 for _ in Thing.objects.iterator(chunk_size=7)), 30)

    def test_filters(self):
        count = lambda *q, **k: Thing.objects.filter(*q, **k).count()  # noqa: E731
        self.assertEqual(count(name__icontains="THING 1"), 11)
        self.assertEqual(count(name__regex=r"^thing \d$"), 10)
        self.assertEqual(count(name__iregex=r"^THING [0-4]$"), 5)
        self.assertEqual(count(name__istartswith="Thing"), 30)
        self.assertEqual(count(name__endswith="9"), 3)
        self.assertEqual(count(name__iexact="THING 3"), 1)
        self.assertEqual(count(name__contains="%"), 0)
        self.assertEqual(count(Q(pieces__in=[1, 2]) | ~Q(pieces__gt=3)), 4)
        self.assertEqual(count(price__range=(1, 2)), 5)
        self.assertEqual(count(weight__isnull=True), 6)
        self.assertEqual(count(maker__name="Bob"), 10)
        self.assertEqual(count(maker__since__year=1999), 20)
        self.assertEqual(count(added__date=datetime.datetime.now(UTC).date()), 30)
        self.assertEqual(count(about__n=7), 1)
        self.assertEqual(count(about__n__gte=20), 10)
        self.assertEqual(count(about__parts__1__b=7), 1)
        self.assertEqual(count(about__has_key="n"), 30)
        self.assertEqual(count(about__contains={"n": 7}), 1)
        self.assertEqual(count(words__contains=["w7"]), 1)
        self.assertEqual(count(words__overlap=["w7", "w8"]), 2)
        self.assertEqual(count(words__len=2), 30)
        self.assertEqual(count(words__0="w3"), 1)
        self.assertEqual(count(warranty__gt=datetime.timedelta(days=20)), 10)
        self.assertEqual(count(opens__hour=8), 30)
        self.assertEqual(count(key=self.things[3].key), 1)

    def test_sums_and_windows(self):
        told = Thing.objects.aggregate(n=Count("id"), p=Avg("price"), w=Avg("weight"), m=Max("added"),
            d=Sum("warranty"))
        self.assertEqual((told["n"], told["p"]), (30, decimal.Decimal("3.625")))
        self.assertEqual(told["d"], datetime.timedelta(days=435, microseconds=30))
        kinds = Thing.objects.values("kind").annotate(n=Count("id"), most=Max("pieces")).order_by("kind")
        self.assertEqual([tuple(row.values()) for row in kinds], [("f", 10, 27), ("t", 20, 29)])
        made = Maker.objects.annotate(n=Count("things", filter=Q(things__on_sale=True)), worth=Coalesce(
            Sum("things__price"), decimal.Decimal(0))).filter(n__gt=0).order_by("name")
        self.assertEqual([(m.name, m.n, m.worth) for m in made],
                         [("Ann", 10, decimal.Decimal("47.5")), ("Bob", 5, decimal.Decimal("61.25"))])
        ranked = Thing.objects.annotate(r=Window(Rank(), partition_by="maker", order_by=F("price").desc())).filter(r=1)
        self.assertEqual([t.name for t in ranked.order_by("name")], ["thing 19", "thing 29"])
        months = Thing.objects.annotate(m=TruncMonth("added"), y=ExtractYear("added")).values("m",
            "y").annotate(n=Count("id"))
        self.assertEqual([row["n"] for row in months.order_by("m")], [30])
        dearest = Thing.objects.filter(maker=OuterRef("pk")).order_by("-price").values("name")[:1]
        got = Maker.objects.annotate(best=Subquery(dearest), has=Exists(Thing.objects.filter(maker=OuterRef("pk"))))
        self.assertEqual([(m.best, m.has) for m in got.order_by("name")], [("thing 19", True), ("thing 29", True)])
        named = Thing.objects.annotate(n=Concat(Upper("kind"), Value("-"), Lower("name"),
            output_field=models.TextField()),
                                       l=Length("name"), now=Now()).order_by("-l", "name").first()
        self.assertEqual((named.n, named.l), ("T-thing 10", 8))
        both = Thing.objects.filter(pieces__lt=3).values("name").union(Maker.objects.values("name")).order_by("name")
        self.assertEqual(len(both[1:4]), 3)
        self.assertEqual(Thing.objects.distinct("maker").order_by("maker", "-price").count(), 2)
        self.assertEqual(Thing.objects.order_by(F("weight").desc(nulls_last=True))[0].name, "thing 29")
        self.assertIn("shop_thing", Thing.objects.filter(pieces=1).explain())

    def test_transactions_with_errors_and_savepoints(self):
        with self.assertRaises(IntegrityError):
            Maker.objects.create(name="Ann")
        with transaction.atomic():
            Maker.objects.create(name="Dee")
            with self.assertRaises(IntegrityError), transaction.atomic():
                Maker.objects.create(name="Ann")
            with self.assertRaises(IntegrityError), transaction.atomic():
                Thing.objects.create(name="x", price=-1, maker=self.maker)
            thing = Thing.objects.select_for_update().get(name="thing 1")
            thing.pieces = 99
            thing.save()
        self.assertEqual((Maker.objects.count(), Thing.objects.get(name="thing 1").pieces), (3, 99))
        with self.assertRaises(IntegrityError), transaction.atomic():
            Sale.objects.create(thing_id=10 ** 9, buyer_id=10 ** 9, at=datetime.datetime.now(UTC))
        with self.assertRaises(ValueError), transaction.atomic():
            Maker.objects.create(name="Eve")
            raise ValueError
        self.assertEqual(Maker.objects.count(), 3)

    def test_users_and_what_they_may(self):
        user = User.objects.create_user("ann", "ann@example.org", "secret")
        self.assertEqual(authenticate(username="ann", password="secret"), user)
        self.assertIsNone(authenticate(username="ann", password="other"))
        group = Group.objects.create(name="clerks")
        group.permissions.add(*Permission.objects.filter(content_type__app_label="shop"))
        user.groups.add(group)
        self.assertTrue(User.objects.get(pk=user.pk).has_perm("shop.change_thing"))
        Sale.objects.create(thing=self.things[0], buyer=user, at=datetime.datetime(2024, 1, 1, tzinfo=UTC))
        self.assertEqual(list(user.thing_set.all()), [self.things[0]])
        found = Thing.objects.select_related("maker").prefetch_related("buyers").filter(buyers__username="ann")
        self.assertEqual([[buyer.username for buyer in thing.buyers.all()] for thing in found], [["ann"]])
        call_command("createsuperuser", username="root", email="root@example.org", interactive=False, verbosity=0)
        self.assertTrue(User.objects.get(username="root").is_superuser)
        user.delete()
        self.assertEqual(Sale.objects.count(), 0)

    def test_what_there_is_is_found(self):
        found = said("inspectdb", "shop_maker", "shop_thing")
        for line in ("class ShopThing(models.Model)", "price = models.DecimalField(max_digits=10, decimal_places=2)",
                     "maker = models.ForeignKey(ShopMaker, models.DO_NOTHING)", "about = models.JSONField()",
                     "name = models.CharField(unique=True, max_length=50)", "key = models.UUIDField(unique=True)",
                     "picture = models.BinaryField(blank=True, null=True)", "warranty = models.DurationField(",
                     "unique_together = (('maker', 'name'),)", "added = models.DateTimeField()"):
            self.assertIn(line, found)
        compile(found, "models.py", "exec")
        with connection.cursor() as cursor:
            rules = connection.introspection.get_constraints(cursor, "shop_thing")
            self.assertTrue(rules["price_is_not_negative"]["check"])
            self.assertEqual(rules["kind_and_price"]["orders"], ["ASC", "ASC"])
            self.assertEqual(rules["name_of_a_maker"]["columns"], ["maker_id", "name"])
            self.assertEqual(len(connection.introspection.get_sequences(cursor, "shop_thing")), 1)

    def test_data_are_dumped_and_loaded(self):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"shop-{os.getpid()}.json")
        self.addCleanup(lambda: os.path.exists(path) and os.remove(path))
        call_command("dumpdata", "shop", output=path, verbosity=0)
        call_command("flush", verbosity=0, interactive=False)
        self.assertEqual(Thing.objects.count(), 0)
        call_command("loaddata", path, verbosity=0)
        self.assertEqual(Thing.objects.count(), 30)
        Maker.objects.create(name="after")

    def test_sql_by_hand(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM shop_thing WHERE pieces = %s AND words @> %s::text[]", [7, ["all"]])
            self.assertEqual(cursor.fetchall(), [("thing 7",)])
            cursor.executemany("UPDATE shop_thing SET sold = %s WHERE pieces = %s", [(1, 1), (2, 2)])
        got = Thing.objects.raw("SELECT * FROM shop_thing WHERE sold > %s ORDER BY id", [0])
        self.assertEqual([thing.sold for thing in got], [1, 2])

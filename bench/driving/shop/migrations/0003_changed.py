"""Tables, columns, keys and types that change while there are rows."""

import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0002_filled")]
    operations = [
        migrations.RenameModel("Producer", "Maker"),
        migrations.AlterUniqueTogether("thing", set()),
        migrations.RenameField("thing", "producer", "maker"),
        migrations.RenameField("thing", "title", "name"),
        migrations.AlterField("thing", "name", models.CharField(max_length=80)),
        migrations.AlterField("thing", "price", models.DecimalField(decimal_places=2, max_digits=10)),
        migrations.AlterField("thing", "weight", models.FloatField(null=True)),
        migrations.AlterField("thing", "pieces", models.PositiveSmallIntegerField(default=0)),
        migrations.AlterField("thing", "on_sale", models.BooleanField(db_index=True, default=True)),
        migrations.AlterField("thing", "key", models.UUIDField(default=uuid.uuid4, unique=True)),
        migrations.RemoveIndex("thing", "by_pieces"),
        migrations.RemoveField("thing", "left"),
        migrations.AddField("maker", "since", models.DateField(null=True)),
        migrations.AddField("sale", "count", models.IntegerField(default=1)),
        migrations.AddField("thing", "sold", models.BigIntegerField(default=0)),
        migrations.AddField("thing", "picture", models.BinaryField(null=True)),
        migrations.AddField("thing", "warranty", models.DurationField(null=True)),
        migrations.AddField("thing", "opens", models.TimeField(null=True)),
        migrations.AlterModelOptions("thing", {"ordering": ["id"]}),
        migrations.AddIndex("thing", models.Index(fields=["kind", "price"], name="kind_and_price")),
        migrations.AddConstraint("thing", models.CheckConstraint(
            condition=models.Q(price__gte=0), name="price_is_not_negative")),
        migrations.AddConstraint("thing", models.UniqueConstraint(fields=["maker", "name"], name="name_of_a_maker")),
        migrations.RunSQL("UPDATE shop_thing SET sold = pieces * 2", migrations.RunSQL.noop),
    ]

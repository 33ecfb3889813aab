"""SQLAlchemy: its core and its ORM, over psycopg and over asyncpg, and what it finds out of a database."""

import asyncio
import datetime
import decimal
import enum
import unittest
import uuid
from typing import List, Optional

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

URL = "postgresql+{driver}://"


class Colour(enum.Enum):
    red = 1
    blue = 2


class Base(orm.DeclarativeBase):
    pass


tags = sa.Table("article_tag", Base.metadata,
                sa.Column("article_id", sa.ForeignKey("article.id", ondelete="CASCADE"), primary_key=True),
                sa.Column("tag_id", sa.ForeignKey("tag.id"), primary_key=True))


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50), unique=True)
    joined: orm.Mapped[datetime.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    articles: orm.Mapped[List["Article"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Article(Base):
    __tablename__ = "article"
    __table_args__ = (sa.CheckConstraint("price >= 0", name="price_is_not_negative"),
                      sa.Index("article_title_idx", "title", "price"))
    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(), primary_key=True)
    title: orm.Mapped[str]
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), default=0)
    colour: orm.Mapped[Optional[Colour]] = orm.mapped_column(sa.Enum(Colour, name="colour"))
    published: orm.Mapped[Optional[datetime.date]]
    about: orm.Mapped[Optional[dict]] = orm.mapped_column(pg.JSONB)
    words: orm.Mapped[Optional[List[str]]] = orm.mapped_column(pg.ARRAY(sa.Text))
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("author.id"))
    author: orm.Mapped[Author] = orm.relationship(back_populates="articles")
    tags: orm.Mapped[List["Tag"]] = orm.relationship(secondary=tags, back_populates="articles")


class Tag(Base):
    __tablename__ = "tag"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    word: orm.Mapped[str] = orm.mapped_column(sa.String(20), comment="what it says")
    articles: orm.Mapped[List[Article]] = orm.relationship(secondary=tags, back_populates="tags")


class Sqlalchemy(unittest.TestCase):
    def setUp(self):
        self.engine = sa.create_engine(URL.format(driver="psycopg"))
        Base.metadata.drop_all(self.engine)
        Base.metadata.create_all(self.engine)
        # What is there is left alone.
        Base.metadata.create_all(self.engine)
        self.addCleanup(self.engine.dispose)

    def test_objects_go_and_come(self):
        with orm.Session(self.engine) as session:
            new, old = Tag(word="new"), Tag(word="old")
            ann = Author(name="Ann", articles=[
                Article(title="One", price="1.50", colour=Colour.blue, published=datetime.date(2024, 2, 29),
                        about={"pages": [1, 2], "by": {"a": None}}, words=["a", "b c"], tags=[new, old]),
                Article(title="Two", tags=[new])])
            session.add_all([ann, Author(name="Bob")])
            session.commit()
            self.assertIsNotNone(ann.joined.tzinfo)
        with orm.Session(self.engine) as session:
            with_all = orm.selectinload(Author.articles).selectinload(Article.tags)
            found = session.scalars(sa.select(Author).options(with_all)
                                    .order_by(Author.name)).all()
            self.assertEqual([(a.name, len(a.articles)) for a in found], [("Ann", 2), ("Bob", 0)])
            one = next(a for a in found[0].articles if a.title == "One")
            self.assertEqual((one.price, one.colour, one.published, one.about, one.words),
                             (decimal.Decimal("1.50"), Colour.blue, datetime.date(2024, 2, 29),
                              {"pages": [1, 2], "by": {"a": None}}, ["a", "b c"]))
            self.assertEqual(sorted(t.word for t in one.tags), ["new", "old"])
            self.assertIsInstance(one.key, uuid.UUID)
            one.price += 1
            one.tags.remove(next(t for t in one.tags if t.word == "old"))
            session.commit()
            joined = session.scalars(sa.select(Author).options(orm.joinedload(Author.articles))).unique().all()
            self.assertEqual(sum(len(a.articles) for a in joined), 2)
            self.assertEqual(session.scalar(sa.select(sa.func.sum(Article.price))), decimal.Decimal("2.50"))
            session.delete(found[0])
            session.commit()
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(Article)), 0)
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(tags)), 0)

    def test_queries(self):
        with orm.Session(self.engine) as session:
            session.add_all([Author(name=f"a{n}", articles=[Article(title=f"t{n}.{m}", price=m) for m in range(n)])
                             for n in range(4)])
            session.flush()
            counted = (sa.select(Author.name, sa.func.count(Article.id).label("n"),
                sa.func.coalesce(sa.func.sum(Article.price), 0))
                       .outerjoin(Article).group_by(Author.name)
                       .having(sa.func.count(Article.id) != 1).order_by(sa.desc("n")))
            self.assertEqual([tuple(row) for row in session.execute(counted)], [("a3", 3, 3), ("a2", 2, 1), ("a0", 0,
                0)])
            ranked = sa.select(Article.title, sa.func.row_number().over(
                partition_by=Article.author_id, order_by=Article.price.desc()).label("r")).cte("ranked")
            best = session.scalars(sa.select(ranked.c.title).where(ranked.c.r == 1).order_by(ranked.c.title)).all()
            self.assertEqual(best, ["t1.0", "t2.1", "t3.2"])
            having = sa.exists().where(Article.author_id == Author.id, Article.price >= 2)
            self.assertEqual(session.scalars(sa.select(Author.name).where(having)).all(), ["a3"])
            wanted = sa.select(Article).where(Article.title.ilike("T3%"), Article.price.in_([0, 2]),
                Article.title.contains("."))
            self.assertEqual(len(session.scalars(wanted.order_by(Article.id).limit(5).offset(1)).all()), 1)
            both = sa.union_all(sa.select(Author.name), sa.select(Article.title)).subquery()
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(both)), 10)
            numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
            numbers = numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < 10))
            self.assertEqual(session.scalar(sa.select(sa.func.sum(numbers.c.n))), 55)
            lateral = sa.select(Article.title).where(Article.author_id == Author.id).order_by(Article.id)
            lateral = lateral.limit(sa.literal_column("1")).lateral()
            got = session.execute(sa.select(Author.name, lateral.c.title).join(lateral,
                sa.true()).order_by(Author.name)).all()
            self.assertEqual([tuple(row) for row in got], [("a1", "t1.0"), ("a2", "t2.0"), ("a3", "t3.0")])
            locked = session.scalars(sa.select(Author).where(Author.name == "a1").with_for_update()).one()
            self.assertEqual(locked.name, "a1")
            case = sa.case((Article.price > 1, "dear"), else_="cheap")
            self.assertEqual(session.scalar(sa.select(sa.func.count()).where(case == "dear")), 1)
            self.assertEqual(session.scalar(sa.select(sa.func.string_agg(Author.name, pg.aggregate_order_by(
                sa.literal_column("','"), Author.name.desc())))), "a3,a2,a1,a0")

    def test_rows_that_are_written_at_once(self):
        with self.engine.begin() as connection:
            got = connection.execute(sa.insert(Author).returning(Author.id, sort_by_parameter_order=True),
                                     [{"name": f"n{n}"} for n in range(2000)]).scalars().all()
            self.assertEqual((len(got), got), (2000, sorted(got)))
            upsert = pg.insert(Author).values([{"name": "n1"}, {"name": "other"}])
            upsert = upsert.on_conflict_do_update(index_elements=["name"], set_={"name": upsert.excluded.name + "!"})
            connection.execute(upsert)
            self.assertEqual(connection.scalar(sa.select(sa.func.count()).where(Author.name == "other")), 1)
            self.assertEqual(connection.scalar(sa.select(sa.func.count()).where(Author.name == "n1!")), 1)
            ignored = pg.insert(Author).values(name="n2").on_conflict_do_nothing()
            self.assertEqual(connection.execute(ignored.returning(Author.id)).all(), [])
            changed = connection.execute(sa.update(Author).where(Author.name.like("n19%")).values(
                name=Author.name + "?").returning(Author.name))
            self.assertEqual(len(changed.all()), 111)
            taken = connection.execute(sa.delete(Author).where(Author.name == sa.bindparam("b")), [{"b": "n5"},
                {"b": "n6"}])
            self.assertEqual(taken.rowcount, 2)

    def test_transactions_with_errors_and_savepoints(self):
        with orm.Session(self.engine) as session:
            session.add(Author(name="Ann"))
            session.flush()
            with self.assertRaises(sa.exc.IntegrityError) as failed, session.begin_nested():
                session.add(Author(name="Ann"))
                session.flush()
            self.assertEqual(failed.exception.orig.diag.constraint_name, "author_name_key")
            with session.begin_nested():
                session.add(Author(name="Bob"))
            session.commit()
            self.assertEqual(session.scalars(sa.select(Author.name).order_by(Author.name)).all(), ["Ann", "Bob"])
            with self.assertRaises(sa.exc.IntegrityError):
                session.execute(sa.insert(Article).values(title="x", price=-1, author_id=1))
            session.rollback()
            with self.assertRaises(sa.exc.ProgrammingError):
                session.execute(sa.text("SELECT * FROM nowhere"))
        for level in ("READ COMMITTED", "REPEATABLE READ"):
            with self.engine.connect().execution_options(isolation_level=level) as connection:
                self.assertEqual(connection.get_isolation_level(), level)
                connection.execute(sa.text("SELECT 1"))
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("INSERT INTO tag VALUES (1, 'kept')"))
            connection.rollback()
            self.assertEqual(connection.scalar(sa.text("SELECT count(*) FROM tag")), 1)

    def test_rows_come_as_they_are_read(self):
        with self.engine.connect() as connection:
            rows = connection.execution_options(stream_results=True, max_row_buffer=100).execute(
                sa.select(sa.func.generate_series(1, 1000).label("n")))
            self.assertEqual(sum(row.n for row in rows), 500500)

    def test_what_there_is_is_found(self):
        with self.engine.begin() as connection:
            for text in ("CREATE SCHEMA IF NOT EXISTS office", "DROP VIEW IF EXISTS titles",
                         "CREATE VIEW titles AS SELECT id, title FROM article",
                         "CREATE TABLE IF NOT EXISTS office.desk (room int, place int, "
                         "author_id int REFERENCES author (id) "
                         "ON DELETE SET NULL, PRIMARY KEY (room, place))", "COMMENT ON TABLE office.desk IS 'where'"):
                connection.execute(sa.text(text))
        seen = sa.inspect(self.engine)
        self.assertEqual(sorted(seen.get_table_names()), ["article", "article_tag", "author", "tag"])
        self.assertEqual((seen.get_view_names(), seen.get_table_names(schema="office")), (["titles"], ["desk"]))
        self.assertIn("office", seen.get_schema_names())
        kinds = {column["name"]: str(column["type"]).replace("TEXT", "VARCHAR")
            for column in seen.get_columns("article")}
        self.assertEqual(kinds, {"id": "INTEGER", "title": "VARCHAR", "price": "NUMERIC(10, 2)", "colour": "VARCHAR(4)",
                                 "published": "DATE", "about": "JSONB", "words": "ARRAY", "key": "UUID",
                                 "author_id": "INTEGER"})
        self.assertEqual([column["nullable"] for column in seen.get_columns("article")][:4], [False, False, False,
            True])
        self.assertEqual(seen.get_columns("article")[0]["identity"]["always"], False)
        self.assertEqual(seen.get_pk_constraint("desk", schema="office")["constrained_columns"], ["room", "place"])
        self.assertEqual([(key["constrained_columns"], key["referred_table"], key["options"])
                          for key in seen.get_foreign_keys("desk", schema="office")],
                         [(["author_id"], "author", {"ondelete": "SET NULL"})])
        self.assertEqual([(index["name"], index["column_names"], index["unique"])
            for index in seen.get_indexes("article")],
                         [("article_title_idx", ["title", "price"], False)])
        self.assertEqual([key["name"] for key in seen.get_unique_constraints("author")], ["author_name_key"])
        self.assertEqual([check["name"] for check in seen.get_check_constraints("article")], ["price_is_not_negative"])
        self.assertEqual(seen.get_table_comment("desk", schema="office")["text"], "where")
        self.assertEqual(seen.get_columns("tag")[1]["comment"], "what it says")
        self.assertEqual([(kind["name"], kind["labels"]) for kind in seen.get_enums()], [("colour", ["red", "blue"])])
        self.assertIn("author_id_seq", seen.get_sequence_names())
        self.assertIn("SELECT", seen.get_view_definition("titles").upper())
        found = sa.MetaData()
        found.reflect(self.engine, views=True)
        self.assertEqual(sorted(found.tables), ["article", "article_tag", "author", "tag", "titles"])
        found.reflect(self.engine, schema="office")
        # What was found can be made again.
        with self.engine.begin() as connection:
            connection.execute(sa.text("DROP VIEW titles"))
            connection.execute(sa.text("DROP TABLE office.desk"))
        found = sa.MetaData()
        found.reflect(self.engine)
        found.drop_all(self.engine)
        found.create_all(self.engine)
        self.assertEqual(len(sa.inspect(self.engine).get_table_names()), 4)
        with self.engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA office"))

    def test_sequences_and_computed_columns(self):
        data = sa.MetaData()
        numbered = sa.Table("numbered", data, sa.Column("n", sa.Integer, sa.Sequence("numbers", start=10),
            primary_key=True),
                            sa.Column("twice", sa.Integer, sa.Computed("n * 2", persisted=True)),
                            sa.Column("at", sa.DateTime, server_default=sa.text("CURRENT_TIMESTAMP")),
                            sa.Column("i", sa.Interval), sa.Column("b", sa.LargeBinary), sa.Column("f", sa.Double))
        data.drop_all(self.engine)
        data.create_all(self.engine)
        with self.engine.begin() as connection:
            made = connection.execute(numbered.insert().values(i=datetime.timedelta(days=1, seconds=2), b=b"\0\1",
                f=0.1))
            self.assertEqual(made.inserted_primary_key[0], 10)
            row = connection.execute(sa.select(numbered)).one()
            self.assertEqual((row.twice, row.i, row.b, row.f), (20, datetime.timedelta(days=1, seconds=2), b"\0\1",
                0.1))
            self.assertEqual(connection.scalar(sa.Sequence("numbers")), 11)
        seen = {column["name"]: column for column in sa.inspect(self.engine).get_columns("numbered")}
        self.assertTrue(seen["twice"]["computed"]["persisted"])
        data.drop_all(self.engine)

    def test_over_asyncpg(self):
        async def used():
            engine = create_async_engine(URL.format(driver="asyncpg"))
            async with async_sessionmaker(engine, expire_on_commit=False)() as session:
                session.add(Author(name="Ann", articles=[Article(title="One", price=2, colour=Colour.red, words=["w"],
                                                                 about={"a": 1}, published=datetime.date(2024, 1, 1))]))
                await session.commit()
                got = (await session.scalars(sa.select(Article).options(orm.joinedload(Article.author)))).one()
                self.assertEqual((got.author.name, got.colour, got.words, got.about), ("Ann", Colour.red, ["w"],
                    {"a": 1}))
                with self.assertRaises(sa.exc.IntegrityError):
                    async with session.begin_nested():
                        session.add(Author(name="Ann"))
                await session.rollback()
                rows = await session.stream(sa.select(sa.func.generate_series(1, 300).label("n")))
                self.assertEqual(sum([row.n async for row in rows]), 45150)
            async with engine.connect() as connection:
                names = await connection.run_sync(lambda plain: sorted(sa.inspect(plain).get_table_names()))
                self.assertEqual(names, ["article", "article_tag", "author", "tag"])
            await engine.dispose()
        asyncio.run(used())

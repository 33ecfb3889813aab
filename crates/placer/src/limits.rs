//! When a node is hot, an item dominates, something is cold: the constants of the decisions, each with its reason.

/// Of what its memory gives, what a node must give before anything is done: below, no statement waits for memory, and
/// what is moved can only lose. A fifth: scans of one core take about that much of a socket's bandwidth.
pub const BUSY_MIN: f64 = 0.2;

/// How much more than the mean the hottest node must give before the load is *unbalanced*, as a part of the mean: what
/// is left below it is so much of the throughput at most (95% of the best placement are wanted, see [`GAIN_MIN`]).
pub const UNBALANCED_MIN: f64 = 0.05;

/// The same where many periods tell it ([`SLIGHT_PERIODS`], [`CHANCE_ERRORS`]) and what items take is known so much
/// better: what few periods tell of an item is a tenth or two off, and what is decided by that leaves some percent.
pub const SLIGHT_MIN: f64 = 0.03;

/// From so much more than the mean on, as a part of it, three periods tell that it is no chance
/// ([`UNBALANCED_PERIODS`]); less takes more of them ([`SLIGHT_PERIODS`]): of some hundred statements a second that are
/// drawn at random, one node of several gets a tenth more than the mean in most periods, and for as long as they queue
/// there.
pub const STRONG_MIN: f64 = 0.5;

/// Periods in a row in which the load has to be strongly unbalanced, each by itself as well: one or two may be a few
/// large statements.
pub const UNBALANCED_PERIODS: u32 = 3;

/// Periods over which a load has to be slightly unbalanced in the mean, half of them by themselves as well.
pub const SLIGHT_PERIODS: u32 = 16;

/// A slight imbalance has to be so many times what it would be by chance (a standard error), as which statements come
/// is drawn at random: each reads all of an item at most, so what was read came of so many draws at least. What one
/// window of [`SLIGHT_PERIODS`] does not tell, several in a row do. Nodes are several, so three would be too few.
pub const CHANCE_ERRORS: f64 = 4.0;

/// The hottest node must give so much less after a decision, as a part of what it gives: so much of how much hotter
/// than the mean it has to be at least. What is less is not worth moving anything.
pub const GAIN_MIN: f64 = 0.8;

/// And so much less for each further item that goes: what takes many moves to mend a little is left.
pub const FURTHER_GAIN_MIN: f64 = 0.01;

/// Moves that come so near to the best that there is are as good: of those the one that moves least is taken, and a
/// move before a division (which costs each statement a task more per range, VLDB 2015, section 6.1.2).
pub const AS_GOOD: f64 = 0.02;

/// Two items are read *together* where so much of what is read of either is read by tasks that read both.
pub const TOGETHER_MIN: f64 = 0.5;

/// And until less than this of it is. Columns of which each is read with the one before it and the one behind it are
/// half read with either: by chance some pairs would be one and others not, other ones each time, and what is moved
/// then goes apart from what it is read with.
pub(crate) const APART_BELOW: f64 = TOGETHER_MIN / 2.0;

/// Below this part of what all nodes have, in the mean, a load that is not strongly unbalanced leaves them *idle* at
/// times: statements wait for one node while another has nothing to do, as items that lie whole on one node each make
/// it where few statements are on their way (VLDB 2015, sections 6.1.2 and 6.1.4: ranges gain at low concurrency, and
/// cost at high). What is above is within what a placement has to come near.
pub const FULL_MIN: f64 = 0.94;

/// From the mean of the last [`TRIAL_PERIODS`] on that is so far from that of all periods before, as a part of what
/// nodes have, it is another load: what was before it says nothing of it.
pub const USED_SHIFT_MAX: f64 = 0.1;

/// Periods over which nodes have to be idle, in the mean, before what is read is divided to see whether that helps; and
/// over which is then seen whether it did.
pub const TRIAL_PERIODS: u32 = 16;

/// So much more has to be read per second, as a part, after such a trial; else all goes back and is not tried again
/// with this load.
pub const TRIAL_GAIN_MIN: f64 = 0.02;

/// So much of what is read may go to other items during a trial, as a part; from there on it is another load, and
/// nothing is known of whether the trial helped.
pub const TRIAL_SHIFT_MAX: f64 = 0.2;

/// Periods after a plan over which is seen whether less is read than before; as many as in a trial.
pub const UNDO_PERIODS: u32 = TRIAL_PERIODS;

/// So much less has to be read after a plan, as a part, for all of it to go back: what costs less than moving it twice
/// within [`HORIZON_PERIODS`] may, and ranges that cost their statements a few percent are no reason to.
pub const UNDO_LOSS_MIN: f64 = 0.1;

/// So much more has to be read after a plan, as a part; else no other is made for this load, for it would gain as
/// little and put off a trial again and again.
pub const PLAN_GAIN_MIN: f64 = TRIAL_GAIN_MIN;

/// And so many times as much as the standard error of the difference, by how much periods differ from each other:
/// where some statements a second are read, single periods say nothing.
pub const UNDO_ERRORS: f64 = 4.0;

/// Items that are read together lie *apart*, on nodes of their own, where so much of what is read of them comes from
/// other nodes: a task that reads two of them reads half from afar.
pub const APART_REMOTE_MIN: f64 = 0.25;

/// Items that are divided in one trial, those that most is read of.
pub const TRIAL_ITEMS_MAX: usize = 64;

/// An item is *cold* once it is served with less than this of what one node gives, for [`COLD_PERIODS`] in a row. A
/// hundredth: one scan of it in a period in which it could have been scanned a hundred times.
pub const COLD_MAX: f64 = 0.01;

/// See [`COLD_MAX`]. Long against the pauses of a workload that comes back.
pub const COLD_PERIODS: u32 = 30;

/// Periods after a decision in which nothing is decided about the same item: one for the move, and what tells whether
/// it was right.
pub const REST_PERIODS: u64 = 4;

/// Periods in which an item does not go back to where it came from.
pub const RETURN_PERIODS: u64 = 10;

/// How much a load has to change, as a factor, to be another one.
pub const CHANGED: f64 = 2.0;

/// Periods within which a move has to pay for itself: what it takes from the memory of both nodes while it runs.
pub const HORIZON_PERIODS: f64 = 30.0;

/// Within a plan, the hottest node must give so much less after a step: what plans end by.
pub(crate) const STEP_MIN: f64 = 0.005;

/// Items of a node that are looked at, those that most is read of.
pub(crate) const LARGEST: usize = 8;

/// Nodes whose items those of a hot one are exchanged for: those that take least.
pub(crate) const COOLEST: usize = 8;

/// Items that are looked at, those that most is read of: what others take stays where it is.
pub(crate) const ITEMS_MAX: usize = 128;

/// Plans that begin with something divided: what a decision takes is some tenths of a second at most.
pub(crate) const PLANS_MAX: usize = 64;

/// A node's memory is *nearly full* from this part of it on: what is coldest goes elsewhere, and nothing else comes.
/// A tenth is left for results and for what statements build, which nobody places.
pub const FULL_FROM: f64 = 0.9;

/// What is coldest goes from a node that is nearly full until so much of it is used, and what comes back leaves it at
/// that: between the two marks nothing goes and nothing comes, so nothing goes to and fro.
pub const FULL_UNTIL: f64 = 0.8;

/// What is on memory without cpus changes places with what is so much colder beside cpus, as a factor of the times that
/// each is read over. Loads have to change by its square until they would change back.
pub const COLDER_MIN: f64 = 4.0;

/// Items that go because of memory in one decision: they take seconds each, and loads are looked at again afterwards.
pub const MEMORY_ITEMS_MAX: usize = 8;

/// Copies take at most this of what a node has left, each: a hundred items may have some before memory is what counts.
pub const COPY_FREE_MAX: f64 = 0.01;

/// An item gets copies where so much of what is read of it is read from other nodes: where most is read beside it, it
/// lies right, and what is stolen now and then is no reason.
pub const COPIES_REMOTE_MIN: f64 = 0.5;

/// A dictionary of a divided item gets copies where so much of what is read of the item is entries of it from other
/// nodes: what is less is within what a placement has to come near.
pub const DICTIONARY_REMOTE_MIN: f64 = 0.05;

/// An item is *written* in a period in which so much of its bytes is: each copy is written too. It has copies only
/// after [`COLD_PERIODS`] in a row in which it was not: what is loaded now and then would have copies made and dropped
/// again.
pub const WRITTEN_MIN: f64 = 0.001;

/// How much of an old period's load counts in the next one's: two periods make half of the picture.
pub const SMOOTHING: f64 = 0.5;

/// A mean over equally many periods would be as sure as one that is smoothed so.
pub(crate) const SMOOTHED_PERIODS: f64 = (1.0 + SMOOTHING) / (1.0 - SMOOTHING);

/// A decision is remembered as wrong for so long, when its user undid it.
pub const REMEMBERED_PERIODS: u64 = 10_000;

/// Loads that are remembered as those with which a plan lost, the last ones.
pub(crate) const LOST_MAX: usize = 8;

//! The experiments that come with the program, in the order of the papers.

macro_rules! experiment {
    ($id:literal) => {
        ($id, include_str!(concat!("../../experiments/", $id, ".toml")))
    };
}

/// Each id with its declaration.
static EMBEDDED: &[(&str, &str)] = &[
    experiment!("vldb2015/fig01"),
    experiment!("vldb2015/fig08"),
    experiment!("vldb2015/fig09"),
    experiment!("vldb2015/fig10"),
    experiment!("vldb2015/fig11"),
    experiment!("vldb2015/fig12"),
    experiment!("vldb2015/fig13"),
    experiment!("vldb2015/fig14"),
    experiment!("vldb2015/fig15"),
    experiment!("vldb2015/fig16"),
    experiment!("vldb2015/fig17"),
    experiment!("vldb2015/fig18"),
    experiment!("vldb2015/fig19-bweml"),
    experiment!("vldb2015/fig19-tpch"),
    experiment!("vldb2015/placing"),
    experiment!("eris2014/fig01-lookup"),
    experiment!("eris2014/fig01-scan"),
    experiment!("eris2014/fig05"),
    experiment!("eris2014/fig08a"),
    experiment!("eris2014/fig08b"),
    experiment!("eris2014/fig08c"),
    experiment!("eris2014/fig09"),
    experiment!("eris2014/fig10"),
    experiment!("eris2014/fig11"),
    experiment!("eris2014/fig12-lookup"),
    experiment!("eris2014/fig12-scan"),
    experiment!("eris2014/fig13"),
    experiment!("subnuma2020/fig11"),
    experiment!("subnuma2020/fig12"),
    experiment!("subnuma2020/fig13"),
    experiment!("subnuma2020/fig14"),
    experiment!("subnuma2020/open-epyc"),
    experiment!("subnuma2020/open-interleaved"),
    experiment!("subnuma2020/open-joins"),
    experiment!("subnuma2020/open-packages"),
    experiment!("nbb2011/stream"),
    experiment!("nbb2011/fig41"),
    experiment!("nbb2011/fig42"),
    experiment!("nbb2011/fig43"),
    experiment!("nbb2011/fig44"),
    experiment!("nbb2011/fig45"),
    experiment!("nbb2011/fig46"),
    experiment!("nbb2011/fig51"),
    experiment!("nbb2011/fig52"),
    experiment!("nbb2011/fig53"),
    experiment!("nbb2011/fig54"),
    experiment!("nbb2011/fig55"),
    experiment!("nbb2011/fig56"),
    experiment!("nbb2011/table51"),
    experiment!("nbb2011/table52"),
];

/// Each id with its declaration.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    EMBEDDED
}

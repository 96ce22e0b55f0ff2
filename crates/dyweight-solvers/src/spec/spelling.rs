//! The names other programs have for the same solvers: diffusers' classes, k-diffusion's functions, ComfyUI's menus.
//!
//! Case and separators do not matter: `DPM++ 2M`, `dpmpp_2m` and `dpmpp-2m` are one name. What is not the same solver
//! is not taken for it: names of schedules, of solvers that draw noise, and of near relatives are answered with what to
//! say instead.

use crate::method;
use dyweight_core::error::{Error, Result};

/// A name, the method it stands for here, and its order if the name has one.
const SPELLINGS: &[(&str, &str, Option<usize>)] = &[
    ("keuler", "euler", None),
    ("eulerdiscrete", "euler", None),
    ("edmeuler", "euler", None),
    ("flowmatcheulerdiscrete", "euler", None),
    ("kheun", "heun", None),
    ("heundiscrete", "heun", None),
    ("flowmatchheundiscrete", "heun", None),
    ("kdpm2", "dpm2", None),
    ("kdpm2discrete", "dpm2", None),
    ("deis", "deis-tab", Some(3)),
    ("dpmsolverpp", "dpmpp", None),
    ("dpmpp2m", "dpmpp", Some(2)),
    ("kdpmpp2m", "dpmpp", Some(2)),
    ("dpmsolvermultistep", "dpmpp", Some(2)),
    ("edmdpmsolvermultistep", "dpmpp", Some(2)),
    ("dpmpp3m", "dpmpp", Some(3)),
    ("unipcbh2", "unipc", None),
    ("unipcmultistep", "unipc", Some(2)),
];

/// Near relatives that are not the same: a name, and what is closest to it here.
const RELATIVES: &[(&str, &str)] = &[
    ("lms", "ipndm-v"),
    ("klms", "ipndm-v"),
    ("lmsdiscrete", "ipndm-v"),
    ("pndm", "ipndm"),
    ("plms", "ipndm"),
    ("deismultistep", "deis-tab"),
    ("dpmpp2s", "dpm2"),
    ("dpmsolversinglestep", "dpm2"),
    ("dpmfast", "dpm2"),
    ("dpmadaptive", "dpm2"),
    ("heunpp2", "heun"),
    ("resmultistep", "dpmpp"),
    ("res2m", "dpmpp"),
    ("res3m", "dpmpp"),
    ("res2s", "dpm2"),
    ("res3s", "dpm2"),
    ("gradientestimation", "euler"),
];

/// Schedules of the same levels, and their names here.
const SCHEDULES: &[(&str, &str)] = &[
    ("karras", "karras"),
    ("polynomial", "karras"),
    ("edm", "karras"),
    ("exponential", "logsnr"),
    ("logsnr", "logsnr"),
    ("timeuniform", "time-uniform"),
    ("discrete", "discrete"),
    ("flow", "flow"),
    ("explicit", "explicit"),
];

/// Near relatives of schedules, and what is closest to them here.
const SCHEDULE_RELATIVES: &[(&str, &str)] = &[
    ("polyexponential", "logsnr"),
    ("lu", "logsnr"),
    ("lulambdas", "logsnr"),
    ("uniform", "discrete"),
    ("normal", "discrete"),
    ("simple", "discrete"),
    ("sgmuniform", "discrete"),
    ("ddimuniform", "discrete"),
    ("linear", "discrete"),
    ("scaledlinear", "discrete"),
    ("linspace", "discrete"),
    ("leading", "discrete"),
    ("trailing", "discrete"),
];

/// Schedules that are none of the rules here, and what to say instead.
const SCHEDULE_SENTENCES: &[(&[&str], &str)] = &[
    (
        &["ays", "alignyoursteps", "alignyoursteps32", "aystable"],
        "it is a table of ten steps for each model: of Stable Diffusion 1.5 \
         `sigmas = 14.615,6.475,3.861,2.697,1.886,1.396,0.963,0.652,0.399,0.152,0.029`",
    ),
    (
        &["beta", "beta57"],
        "its steps lie closer at both ends: the nearest is 'time-uniform'; a list of levels is taken by `sigmas`",
    ),
    (&["kloptimal", "kl"], "its arc tangents lie between 'karras' and 'logsnr'; a list of levels is taken by `sigmas`"),
    (
        &["cosine", "squaredcoscapv2", "cosinelogsnr"],
        "it is of models trained on it, with levels of their own: give these by `sigmas`",
    ),
    (&["gits", "ots", "optimalsteps"], "it is found for a model: `method = gits` learns one"),
];

/// A name without case, separators, and the word that says what it is anyway.
pub(super) fn plain(name: &str) -> String {
    let letters = name.trim().chars().flat_map(char::to_lowercase).filter(|c| !matches!(c, '_' | '-' | ' ' | '.'));
    let text: String = letters.map(|c| if c == '+' { 'p' } else { c }).collect();
    let text = text.strip_prefix("sample").unwrap_or(&text);
    text.strip_suffix("scheduler").unwrap_or(text).to_string()
}

/// The method and order a foreign name stands for; none if it is no such name, an error if it is one of something else.
pub(super) fn foreign(name: &str) -> Result<Option<(&'static str, Option<usize>)>> {
    let text = plain(name);
    if let Some((_, method, order)) = SPELLINGS.iter().find(|(spelling, ..)| *spelling == text) {
        return Ok(Some((method, *order)));
    }
    let other = |problem: String, hint: String| Err(Error::conflict(problem, hint));
    if let Some(method) = method::list().into_iter().map(|(name, ..)| name).find(|name| plain(name) == text) {
        return other(
            format!("solver '{name}' has to be learned first"),
            format!("training with `method = {method}` learns one, and `weights` takes what it wrote"),
        );
    }
    let noisy = ["eulera", "dpm2a", "ddpm", "lcm", "seeds2", "seeds3", "sasolver"];
    if text.contains("ancestral") || text.contains("sde") || noisy.contains(&&*text) {
        let near = if text.starts_with("dpmpp") { "dpmpp" } else { "euler" };
        return other(
            format!("solver '{name}' draws noise at every step, which no solver here does"),
            format!("the nearest without noise is '{near}'"),
        );
    }
    if let Some((_, near)) = RELATIVES.iter().find(|(relative, _)| *relative == text) {
        return other(format!("there is no solver '{name}'"), format!("the nearest is '{near}'"));
    }
    if is_schedule(&text) {
        return other(
            format!("'{name}' is the name of a schedule, not of a solver"),
            format!("give it as `schedule = {name}`, beside a solver"),
        );
    }
    if let Some((_, near, _)) = SPELLINGS.iter().find(|(spelling, ..)| text.strip_suffix("cfgpp") == Some(spelling)) {
        return other(format!("there is no solver '{name}'"), format!("the nearest is '{near}'"));
    }
    Ok(None)
}

/// The name and the schedule of a name that says both, as `dpmpp_2m_karras` does.
pub(super) fn with_schedule(name: &str) -> Option<(String, &'static str)> {
    let text = plain(name);
    let longest_first = SCHEDULE_RELATIVES.iter().rev().chain(SCHEDULES);
    longest_first.into_iter().find_map(|(ending, rule)| Some((text.strip_suffix(ending)?.to_string(), *rule)))
}

/// The schedule a name stands for; none if it is no such name, an error if it is one of something else.
pub(super) fn schedule(name: &str) -> Result<Option<&'static str>> {
    let text = plain(name);
    if let Some((_, rule)) = SCHEDULES.iter().find(|(spelling, _)| *spelling == text) {
        return Ok(Some(rule));
    }
    let refused = |hint: String| Err(Error::conflict(format!("there is no schedule '{name}'"), hint));
    if let Some((_, near)) = SCHEDULE_RELATIVES.iter().find(|(relative, _)| *relative == text) {
        return refused(format!("the nearest is '{near}'"));
    }
    match SCHEDULE_SENTENCES.iter().find(|(names, _)| names.contains(&&*text)) {
        Some((_, sentence)) => refused((*sentence).into()),
        None => Ok(None),
    }
}

/// True of a name that is a schedule's, here or elsewhere.
fn is_schedule(text: &str) -> bool {
    let known = SCHEDULES.iter().chain(SCHEDULE_RELATIVES).map(|(name, _)| name);
    known.chain(SCHEDULE_SENTENCES.iter().flat_map(|(names, _)| *names)).any(|name| *name == text)
}

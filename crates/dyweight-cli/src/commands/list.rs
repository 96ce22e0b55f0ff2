//! `dyweight list`.

use crate::ui;
use clap::{Args, ValueEnum};
use dyweight::Result;
use dyweight::error::printable;
use dyweight::models::edm::PUBLISHED;
use dyweight::models::latent::RANDOM;
use dyweight::models::spec::BUILT_IN;
use dyweight::presets;
use dyweight::schedule::BetaTable;
use dyweight::spec::METHODS;
use serde_json::{Value, json};

/// What to list.
#[derive(Args)]
pub struct ListArgs {
    /// What to list
    what: Listing,
    /// Only rows that contain this text: sd15, karras, nfe5
    filter: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Listing {
    Models,
    Solvers,
    Methods,
    Schedules,
    Presets,
    Recipes,
}

const SCHEDULES: &[(&str, &str)] = &[
    ("karras", "polynomial with exponent --rho (7): the EDM grid"),
    ("logsnr", "geometric: uniform in ln sigma"),
    ("time-uniform", "polynomial with exponent --rho (1) in the time of a fitted VP process"),
    ("discrete", "polynomial with exponent --rho (1) in the time index of --beta-table"),
    ("flow", "flow matching from 1 to 0 with --shift or --image-size"),
    ("explicit", "the list given with --sigmas"),
];

const RECIPES: &[(&str, &str)] = &[
    ("few", "16 pairs, no gradients (gauss-newton), the best of many starts; the default"),
    ("paper", "10 000 pairs, Adam, one start: the recipe of the DyWeight paper"),
];

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<()> {
    let mut rows = match args.what {
        Listing::Models => models(),
        Listing::Solvers => solvers(),
        Listing::Methods => methods(),
        Listing::Schedules => pairs(&["schedule", "what it is"], SCHEDULES),
        Listing::Presets => presets()?,
        Listing::Recipes => pairs(&["recipe", "what it is"], RECIPES),
    };
    if let Some(text) = &args.filter {
        let text = text.to_lowercase();
        let mut is_heading = true;
        rows.retain(|row| {
            std::mem::take(&mut is_heading) || row.iter().any(|cell| cell.to_lowercase().contains(&text))
        });
    }
    if args.json {
        let (heading, body) = rows.split_first().map_or((&[][..], &[][..]), |(h, b)| (h.as_slice(), b));
        let object = |row: &Vec<String>| heading.iter().zip(row).map(|(k, v)| (k.clone(), value(v))).collect();
        let list: Vec<serde_json::Map<_, _>> = body.iter().map(object).collect();
        ui::print_json(&json!(list));
        return Ok(());
    }
    if let Listing::Presets = args.what {
        // A row is a line of 80 letters: names have the data in them, and JSON has everything.
        let shown = rows[0].iter().map(|name| name != "data" && name != "window").collect::<Vec<_>>();
        rows.iter_mut().for_each(|row| {
            let mut columns = shown.iter();
            row.retain(|_| columns.next() == Some(&true));
        });
    }
    ui::table(&rows);
    if let (Some(text), true) = (&args.filter, rows.len() < 2) {
        ui::say(&format!("nothing in this list contains '{}'", printable(text)));
        return Ok(());
    }
    match args.what {
        Listing::Presets => {
            for credit in presets::credit() {
                ui::say(&format!("\ncoefficients of {} ({}), {}", credit.title, credit.venue, credit.authors));
            }
            ui::say("use with: dyweight sample --weights preset:NAME …");
        }
        Listing::Schedules => ui::say(&format!("\nbeta tables: {}", BetaTable::NAMES.join(", "))),
        Listing::Models => ui::say(
            "\nor a folder or file: Stable Diffusion and LSUN models (diffusers, CompVis), EDM networks (.pkl, or .safetensors with --model-config), mixtures; random:sd15-f16 and -bf16 have half-precision weights",
        ),
        Listing::Methods => ui::say("\nuse with: dyweight train --method NAME …"),
        Listing::Recipes => ui::say("\nuse with: dyweight train --recipe NAME …"),
        Listing::Solvers => {
            ui::say("\nnames of diffusers, k-diffusion and ComfyUI are understood where they mean the same")
        }
    }
    Ok(())
}

/// A cell of a table as JSON: numbers, yes and no, and nothing are what they are.
fn value(cell: &str) -> Value {
    match (cell, cell.parse::<u64>()) {
        (_, Ok(number)) => json!(number),
        ("yes" | "no", _) => json!(cell == "yes"),
        ("-", _) => Value::Null,
        _ => json!(cell),
    }
}

fn models() -> Vec<Vec<String>> {
    let mut rows = pairs(&["model", "what it is"], &BUILT_IN);
    let random = |(name, what): &(&str, &str)| {
        vec![format!("random:{name}"), format!("{what}, drawn at random: for measurements")]
    };
    rows.extend(PUBLISHED.iter().chain(RANDOM).map(random));
    rows
}

fn pairs(heading: &[&str; 2], list: &[(&str, &str)]) -> Vec<Vec<String>> {
    let body = list.iter().map(|(a, b)| vec![a.to_string(), b.to_string()]);
    std::iter::once(heading.map(String::from).to_vec()).chain(body).collect()
}

fn solvers() -> Vec<Vec<String>> {
    let heading = ["solver", "alias", "orders", "default", "options", "what it is"].map(String::from).to_vec();
    let body = METHODS.iter().map(|m| {
        let orders = m.highest_order.map_or("-".into(), |h| format!("1-{h}"));
        let default = m.default_order.map_or("-".into(), |order| order.to_string());
        let options = if m.options.is_empty() { "-".into() } else { m.options.join(",") };
        vec![m.name.into(), m.alias.unwrap_or("-").into(), orders, default, options, m.summary.into()]
    });
    std::iter::once(heading).chain(body).collect()
}

fn methods() -> Vec<Vec<String>> {
    let heading = ["method", "options of its own", "what is learned"].map(String::from).to_vec();
    let row = |(name, what, options): (&str, &str, &[&str])| vec![name.into(), options.join(","), what.into()];
    std::iter::once(heading).chain(dyweight::train::method::list().into_iter().map(row)).collect()
}

fn presets() -> Result<Vec<Vec<String>>> {
    let heading = ["preset", "model", "data", "nfe", "steps", "window", "afs", "schedule"].map(String::from).to_vec();
    let row = |name: &'static str| {
        let (_, file) = presets::find(name)?;
        let rule = serde_json::to_value(&file.schedule).unwrap_or_default();
        let kind = rule["kind"].as_str().unwrap_or_default();
        let afs = if file.afs { "yes" } else { "no" };
        Ok(vec![
            name.to_string(),
            presets::model(name).unwrap_or("-").into(),
            file.model.name,
            file.nfe.to_string(),
            file.steps.to_string(),
            file.body.weights().map_or("-".into(), |weights| weights.order.to_string()),
            afs.into(),
            rule["rho"].as_f64().map_or(kind.into(), |rho| format!("{kind} {rho}")),
        ])
    };
    std::iter::once(Ok(heading)).chain(presets::names().map(row)).collect()
}

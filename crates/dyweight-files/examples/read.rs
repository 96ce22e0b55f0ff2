//! What the readers of this crate make of files, a line of JSON each: `read safetensors|npy|npz|png|json < names`.
//! `tests/differential/run` compares it with what Python's readers make of the same files.

use dyweight_core::json;
use dyweight_files::image::Image;
use dyweight_files::{ArrayFile, Fingerprint, SharedBytes, StoredTensor, TensorFile, parse_npy};
use serde_json::{Map, Value, json};
use std::io::BufRead;

fn numbers(tensor: &StoredTensor) -> Value {
    let hash = Fingerprint::default().add_numbers(&tensor.to_f64()).text();
    json!([tensor.shape(), hash])
}

fn bytes(tensor: &StoredTensor) -> Value {
    json!([tensor.dtype().name(), tensor.shape(), Fingerprint::default().add(tensor.bytes()).text()])
}

fn read(kind: &str, data: Vec<u8>) -> Result<Value, String> {
    let shared = SharedBytes::from(data.clone());
    let said = |problem: dyweight_files::Malformed| problem.to_string();
    match kind {
        "safetensors" => {
            let file = TensorFile::parse(shared).map_err(said)?;
            Ok(file.tensors.iter().map(|(name, tensor)| (name.clone(), bytes(tensor))).collect())
        }
        "npy" => parse_npy(&shared).map(|array| numbers(&array)).map_err(said),
        "npz" => {
            let file = ArrayFile::parse(shared).map_err(said)?;
            Ok(file.arrays.iter().map(|(name, array)| (name.clone(), numbers(array))).collect())
        }
        "png" => {
            let image = Image::from_png(&data).map_err(|problem| problem.to_string())?;
            let hash = Fingerprint::default().add(image.data()).text();
            Ok(json!([image.height(), image.width(), image.channels(), hash]))
        }
        _ => json::parse::<Map<String, Value>>(&data).map(Value::Object),
    }
}

fn main() {
    let kind = std::env::args().nth(1).unwrap_or_default();
    for name in std::io::stdin().lock().lines().map_while(Result::ok) {
        let found = std::fs::read(&name).map_err(|e| e.to_string()).and_then(|data| read(&kind, data));
        println!("{}", found.map_or_else(|said| json!({ "error": said }), |value| json!({ "ok": value })));
    }
}

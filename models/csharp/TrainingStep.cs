using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text.Json;
using Microsoft.ML.OnnxRuntime;

/// <summary>A training step that onnxgrad.save_training_step wrote. Its state (weights, optimizer, counters) goes in and comes out of every run.</summary>
class TrainingStep
{
    public readonly JsonElement Manifest;
    public readonly Dictionary<string, OrtValue> State = new Dictionary<string, OrtValue>();
    readonly InferenceSession session;
    readonly Dictionary<string, string> next = new Dictionary<string, string>();

    /// <summary>Read the manifest, such as step.json, the model and the first values, which lie beside it.</summary>
    public TrainingStep(string path)
    {
        Manifest = JsonDocument.Parse(File.ReadAllText(path)).RootElement;
        var folder = Path.GetDirectoryName(path);
        session = new InferenceSession(Path.Combine(folder, Manifest.GetProperty("model").GetString()));
        var values = File.ReadAllBytes(Path.Combine(folder, Manifest.GetProperty("values").GetString()));
        foreach (var kind in new[] { "state", "constants" })
            foreach (var entry in Manifest.GetProperty(kind).EnumerateArray())
                State[entry.GetProperty("name").GetString()] = Read(entry, values);
        foreach (var entry in Manifest.GetProperty("state").EnumerateArray())
            next[entry.GetProperty("output").GetString()] = entry.GetProperty("input").GetString();
    }

    static OrtValue Read(JsonElement entry, byte[] values)
    {
        var shape = entry.GetProperty("shape").EnumerateArray().Select(d => d.GetInt64()).ToArray();
        var bytes = values.AsMemory(entry.GetProperty("offset").GetInt32(), entry.GetProperty("bytes").GetInt32());
        switch (entry.GetProperty("dtype").GetString())
        {
            case "float32": return OrtValue.CreateTensorValueFromMemory(MemoryMarshal.Cast<byte, float>(bytes.Span).ToArray(), shape);
            case "int64": return OrtValue.CreateTensorValueFromMemory(MemoryMarshal.Cast<byte, long>(bytes.Span).ToArray(), shape);
            default: throw new NotSupportedException("no reader for " + entry.GetProperty("dtype"));
        }
    }

    /// <summary>Train on one batch; returns the fetches by name, which the caller disposes. New state takes the place of the old.</summary>
    public Dictionary<string, OrtValue> Run(IReadOnlyDictionary<string, OrtValue> feeds)
    {
        var inputs = State.Concat(feeds).ToDictionary(pair => pair.Key, pair => pair.Value);
        var fetches = new Dictionary<string, OrtValue>();
        using (var options = new RunOptions())
        {
            var results = session.Run(options, inputs, session.OutputNames);
            for (var i = 0; i < results.Count; i++)
            {
                var name = session.OutputNames[i];
                if (!next.TryGetValue(name, out var input)) { fetches[name] = results[i]; continue; }
                State[input].Dispose();
                State[input] = results[i];
            }
        }
        return fetches;
    }
}

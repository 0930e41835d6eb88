import com.fasterxml.jackson.databind.ObjectMapper;
import io.anserini.analysis.AnalyzerUtils;
import io.anserini.analysis.DefaultEnglishAnalyzer;
import io.anserini.index.Constants;
import io.anserini.search.SimpleSearcher;
import io.anserini.search.query.BagOfWordsQueryGenerator;
import java.io.File;
import java.lang.reflect.Method;
import java.nio.file.Paths;
import java.util.*;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.standard.StandardTokenizerImpl;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.search.*;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.FSDirectory;

/** Answers the requests of record_lucene.py: java -cp anserini.jar LuceneRecorder.java REQUEST ANSWER. */
public class LuceneRecorder {
  static final Analyzer ANALYZER = DefaultEnglishAnalyzer.newDefaultInstance();

  @SuppressWarnings("unchecked")
  public static void main(String[] args) throws Exception {
    ObjectMapper json = new ObjectMapper();
    Map<String, Object> request = json.readValue(new File(args[0]), Map.class);
    Map<String, Object> answer = new HashMap<>();
    List<Object> terms = new ArrayList<>();
    for (String text : (List<String>) request.getOrDefault("texts", List.of())) {
      terms.add(AnalyzerUtils.analyze(ANALYZER, text));
    }
    answer.put("terms", terms);
    if (request.containsKey("index")) {
      String index = (String) request.get("index");
      List<String> queries = (List<String>) request.get("queries");
      answer.put("hits", hits(index, queries, (Integer) request.get("k")));
    }
    if (request.containsKey("classes")) {
      answer.put("classes", classes());
    }
    json.writeValue(new File(args[1]), answer);
  }

  /** For each query the ids that SimpleSearcher finds, with the scores that Lucene gave them, as bits. */
  static List<Object> hits(String index, List<String> queries, int k) throws Exception {
    SimpleSearcher searcher = new SimpleSearcher(index);
    IndexSearcher plain = new IndexSearcher(DirectoryReader.open(FSDirectory.open(Paths.get(index))));
    plain.setSimilarity(new BM25Similarity(0.9f, 0.4f)); // SimpleSearcher's defaults
    Sort byScoreThenId =
        new Sort(SortField.FIELD_SCORE, new SortField(Constants.ID, SortField.Type.STRING_VAL));
    List<Object> all = new ArrayList<>();
    for (String query : queries) {
      Query parsed = new BagOfWordsQueryGenerator().buildQuery(Constants.CONTENTS, ANALYZER, query);
      ScoreDoc[] scored = plain.search(parsed, k, byScoreThenId, true).scoreDocs;
      SimpleSearcher.Result[] found = searcher.search(query, k);
      List<Object> hits = new ArrayList<>();
      for (int i = 0; i < found.length; i++) {
        if (found.length != scored.length || found[i].lucene_docid != scored[i].doc) {
          throw new IllegalStateException("SimpleSearcher and Lucene differ on " + query);
        }
        hits.add(List.of(found[i].docid, Float.floatToIntBits(scored[i].score)));
      }
      all.add(hits);
    }
    return all;
  }

  /** The tokenizer's own class of every code point, as runs [class, first, last]. */
  static List<Object> classes() throws Exception {
    Method classOf = null;
    for (Method method : StandardTokenizerImpl.class.getDeclaredMethods()) {
      if (method.getName().equals("zzCMap")) {
        classOf = method;
      }
    }
    classOf.setAccessible(true);
    List<Object> runs = new ArrayList<>();
    int first = 0;
    for (int code = 1; code <= 0x110000; code++) {
      Object before = classOf.invoke(null, code - 1);
      if (code == 0x110000 || !classOf.invoke(null, code).equals(before)) {
        runs.add(List.of(before, first, code - 1));
        first = code;
      }
    }
    return runs;
  }
}
